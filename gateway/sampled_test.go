package gateway

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/upstream"
)

// sampling has the cache's config as a test wants it.
func sampling(adjust func(*cache.Config)) func(*Options) {
	return func(o *Options) {
		was := o.CacheConfig
		o.CacheConfig = func(route string) cache.Config {
			c := was(route)
			adjust(&c)
			return c
		}
	}
}

// atOnce asks the same several times at the same time, lets the backend answer once so many are there, and returns the answers.
func (b *cacheBench) atOnce(t *testing.T, up *speaker, q question, many, generations int) []clientResult {
	t.Helper()
	calls := up.calls.Load()
	up.step = make(chan struct{})
	answers := make([]clientResult, many)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = b.say(t.Context(), q) })
	}
	soon(t, "all are there", func() bool {
		return up.calls.Load() == calls+int64(generations) && (generations == many || b.opts.Generations.Subscribers() == many)
	})
	close(up.step)
	all.Wait()
	for i, s := range answers {
		if s.code != http.StatusOK || s.broken || !s.done {
			t.Fatalf("request %d: %+v", i, s)
		}
	}
	return answers
}

// targetOf is a cascade without drafts.
func targetOf(t *testing.T, backend string, mode plan.Mode) *tiers.Cascade {
	t.Helper()
	target, err := pool.New(pool.Options{Name: "targets", Model: "m", Backends: []string{backend}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := plan.Config{Mode: mode, MaxPromptTokens: 1000, Timeouts: plan.Timeouts{TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute}}
	c, err := tiers.New(tiers.Options{Upstream: upstream.New(upstream.Options{}), Routes: []tiers.Route{{Model: "llama-3", Target: target, Config: func() plan.Config { return cfg }}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func differing(answers []clientResult) int {
	texts := map[string]bool{}
	for _, s := range answers {
		texts[s.text] = true
	}
	return len(texts)
}

func TestSampledRequestsAtOnceGetASampleEachAndLaterOnesTheKeptOne(t *testing.T) {
	const many = 8
	for _, stream := range []bool{false, true} {
		up, k := newSpeaker(t), newKept(t)
		b := startCached(t, up.URL, k, nil)
		for _, body := range []string{`"temperature":0.8`, `"top_p":0.9`} { // without a temperature it is 1
			q := question{content: body, stream: stream, sampling: body}
			answers := b.atOnce(t, up, q, many, many)
			if n := differing(answers); n != many {
				t.Errorf("%s, stream %t: %d different answers to %d requests", body, stream, n, many)
			}
			soon(t, "one of them is kept", func() bool { return b.say(t.Context(), q).header.Get("X-Cache") == "HIT" })
			fresh := q
			fresh.header = map[string]string{"Cache-Control": "no-cache"}
			if s := b.say(t.Context(), fresh); s.header.Get("X-Cache") != "MISS" {
				t.Errorf("%s, stream %t: no-cache gave %s", body, stream, s.header.Get("X-Cache"))
			}
		}
	}
}

func TestSampledRequestsAtOnceShareOneGenerationWhereTheyAreTo(t *testing.T) {
	const many = 8
	for name, c := range map[string]struct {
		sampling string
		adjust   func(*cache.Config)
	}{
		"a seed makes them the same":  {`"temperature":0.8,"seed":7`, func(*cache.Config) {}},
		"they are not sampled at all": {`"temperature":0`, func(*cache.Config) {}},
	} {
		up, k := newSpeaker(t), newKept(t)
		b := startCached(t, up.URL, k, sampling(c.adjust))
		if n := differing(b.atOnce(t, up, question{sampling: c.sampling}, many, 1)); n != 1 {
			t.Errorf("%s: %d different answers", name, n)
		}
	}
}

func TestWhoWantsTheTargetsLawExactlyAboveTemperatureZeroSharesNothing(t *testing.T) {
	const many = 4
	exact := map[string]string{"X-Acceptance-Mode": "exact"}
	for name, c := range map[string]struct {
		mode   plan.Mode
		q      question
		shares bool
	}{
		"the header":                {plan.ModeConfidence, question{sampling: `"temperature":0.8`, header: exact}, false},
		"the header without drafts": {plan.ModeOff, question{sampling: `"temperature":0.8`, header: exact}, false},
		"the mode":                  {plan.ModeVerify, question{sampling: `"temperature":0.8`}, false},
		"the mode and a seed":       {plan.ModeVerify, question{sampling: `"temperature":0.8,"seed":7`}, false},
		"the header, greedy":        {plan.ModeConfidence, question{sampling: `"temperature":0`, header: exact}, true},
		"the mode, greedy":          {plan.ModeVerify, question{sampling: `"temperature":0`}, true},
	} {
		up, k := newSpeaker(t), newKept(t)
		b := startCached(t, up.URL, k, func(o *Options) {
			sampling(func(*cache.Config) {})(o)
			o.Cascade = targetOf(t, up.URL, c.mode)
		})
		generations, want := many, "BYPASS"
		if c.shares {
			generations, want = 1, "HIT"
		}
		answers := b.atOnce(t, up, c.q, many, generations)
		if n := differing(answers); n != generations {
			t.Errorf("%s: %d different answers to %d requests", name, n, many)
		}
		soon(t, fmt.Sprintf("%s: the next is %s", name, want), func() bool { return b.say(t.Context(), c.q).header.Get("X-Cache") == want })
	}
}

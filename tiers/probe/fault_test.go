package probe

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAnotherTokenizerIsTold(t *testing.T) {
	one := &taken(t, engine(t, vllmsim.Options{Seed: 3}).URL()).found
	for _, without := range [][]string{nil, {"tokenize"}} {
		other := &taken(t, engine(t, vllmsim.Options{Seed: 3, Tokenizer: "other", Without: without}).URL()).found
		if same, known := SameTokens(one, other); same || !known {
			t.Errorf("without %v: same %v, known %v", without, same, known)
		}
		missing := MissingReuse
		if without != nil {
			missing = "detokenize reuse tokenize"
		}
		if whats(other) != missing || len(other.EOS) != 1 || other.EOS[0] == one.EOS[0] {
			t.Errorf("without %v: ends %v, missing %+v", without, other.EOS, other.Missing)
		}
	}
}

// What goes wrong with scores alone costs an engine its scoring and nothing else.
func TestFaultsOfScoringAreTold(t *testing.T) {
	for _, c := range []struct {
		score string
		why   string
		weak  bool // it may be better soon
	}{
		{"error", "completions: status 500", true},
		{"hang", "completions: no answer to /v1/completions within 2s", true},
		{"short", "completions: token 1 of 8, id ", false},
		{"misaligned", "completions: ", false},
		{"garbage", "completions: ", false},
	} {
		s := engine(t, vllmsim.Options{Seed: 3, Fault: vllmsim.Fault{Score: c.score}})
		timeout := time.Minute
		if c.score == "hang" {
			timeout = 2 * time.Second
		}
		e := &probeRun{asker: &asker{transport: transport(t), timeout: timeout, url: s.URL(), model: "sim"}}
		if err := e.run(t.Context()); err != nil {
			t.Errorf("%s: %v", c.score, err)
			continue
		}
		why := e.found.MissingReason(MissingScoring)
		if e.found.Scoring != "" || !strings.HasPrefix(why, c.why) || (e.weak != "") != c.weak || e.deadly {
			t.Errorf("%s: %q, missing %q, weak %q, deadly %v", c.score, e.found.Scoring, why, e.weak, e.deadly)
		}
		if !e.found.Continues || e.found.Tokenizer == "" || len(e.found.EOS) == 0 {
			t.Errorf("%s: %+v", c.score, e.found)
		}
	}
}

// An engine that runs out of memory when it scores comes back, and is not killed again.
func TestAnEngineThatDiesOfScoringDiesOnce(t *testing.T) {
	s := engine(t, vllmsim.Options{Seed: 3, Restart: 10 * time.Minute, Fault: vllmsim.Fault{Score: "die"}})
	var life atomic.Uint64
	up := func() []Backend {
		if n := uint64(s.State().Deaths); n != life.Load() && healthy(s.URL()) {
			life.Store(n)
		}
		return []Backend{{ID: "a", URL: s.URL(), Up: true, Life: life.Load()}}
	}
	p, err := New(Options{Transport: transport(t), Pools: []Pool{{Name: "p", Model: "sim", Backends: up}}})
	if err != nil {
		t.Fatal(err)
	}
	p.pace = hasty
	run(t, p)
	c := until(t, p, "probed in the second life", func(c *Capabilities) bool { return known(c) && c.Life == 1 })
	if !strings.Contains(c.MissingReason(MissingScoring), "not asked before") || !c.Continues {
		t.Errorf("got %+v", c)
	}
	if n := s.State().Deaths; n != 1 {
		t.Errorf("it died %d times", n)
	}
}

func healthy(url string) bool {
	resp, err := http.Get(url + "/health")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

package tiers

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redis/calls"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestAnAnswerIsMadeOnceAndGivenAgainInEitherShape(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.store.takes = 5 * time.Millisecond
		first := b.ask(question{})
		first.is(t, "the first", "It is answer 1.", cache.ResultMiss)
		if first.record.Receipt == nil || first.record.Entry != nil || first.head.FromCache || first.head.Timing.Cache != b.store.takes {
			t.Errorf("the first: %+v, head %+v", first.record, first.head)
		}
		time.Sleep(time.Minute)
		for _, stream := range []bool{false, true} {
			again := b.ask(question{stream: stream})
			again.is(t, "again", "It is answer 1.", cache.ResultHit)
			if again.record.Receipt != nil || again.record.Entry == nil || !again.head.FromCache || again.head.Tier != "target" ||
				again.head.Age < time.Minute || again.head.Timing.Total != b.store.takes || again.record.Lookup != b.store.takes {
				t.Errorf("again: %+v, head %+v", again.record, again.head)
			}
		}
		b.store.copies = b.store.entries
		b.ask(question{}).is(t, "from this replica", "It is answer 1.", cache.ResultLocal)
		if n := b.speaker.generations(); n != 1 {
			t.Errorf("%d generations", n)
		}
	})
}

func TestARequestSaysWhatTheCacheMayDo(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		only := func(c CacheControl) question {
			c.OnlyIfCached = true
			return question{control: c}
		}
		for _, q := range []question{
			only(CacheControl{}), only(CacheControl{NoStore: true}), only(CacheControl{NoCache: true}),
			{control: CacheControl{OnlyIfCached: true}, more: `,"logprobs":true`},
		} {
			if a := b.ask(q); !errors.Is(a.err, ErrNotCached) || a.head != nil {
				t.Errorf("%+v: %v", q, a.err)
			}
		}
		if n := b.speaker.generations(); n != 0 {
			t.Fatalf("%d generations for a kept answer or none", n)
		}
		b.ask(question{control: CacheControl{NoStore: true}}).is(t, "no-store", "It is answer 1.", cache.ResultBypass)
		if n := b.store.kept(); n != 0 {
			t.Fatalf("%d answers are kept after no-store", n)
		}
		b.ask(question{}).is(t, "the first", "It is answer 2.", cache.ResultMiss)
		b.ask(only(CacheControl{})).is(t, "only-if-cached", "It is answer 2.", cache.ResultHit)
		time.Sleep(time.Minute)
		b.ask(question{control: CacheControl{HasMaxAge: true, MaxAge: 2 * time.Minute}}).is(t, "max-age", "It is answer 2.", cache.ResultHit)
		b.ask(question{control: CacheControl{HasMaxAge: true, MaxAge: time.Second}}).is(t, "max-age that is over", "It is answer 3.", cache.ResultMiss)
		b.ask(question{control: CacheControl{NoCache: true}}).is(t, "no-cache", "It is answer 4.", cache.ResultMiss)
		b.ask(question{}).is(t, "the fresh answer", "It is answer 4.", cache.ResultHit)
	})
}

func TestNothingIsLookedUpOrKeptWhilePurgesAreNotHeardOf(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.store.deaf = true
		for range 2 {
			b.ask(question{}).record.mustBe(t, cache.ResultAway)
		}
		if n := b.store.kept(); n != 0 || b.speaker.generations() != 2 {
			t.Errorf("%d kept, %d generations", n, b.speaker.generations())
		}
	})
}

// mustBe fails the test unless that came of the cache.
func (r *Record) mustBe(t *testing.T, want cache.Result) {
	t.Helper()
	if r.Cache != want {
		t.Errorf("%s, want %s", r.Cache, want)
	}
}

func TestWhyTheCacheHadNoAnswerIsCounted(t *testing.T) {
	for found, want := range map[cache.Result]cache.Result{
		cache.ResultMiss: cache.ResultMiss, cache.ResultAway: cache.ResultAway,
		cache.ResultLate: cache.ResultLate, cache.ResultError: cache.ResultError,
	} {
		inBubble(t, nil, func(t *testing.T, b *bench) {
			b.store.found = found
			b.store.entries = map[cache.Key]*cache.Entry{}
			told := b.ask(question{}).record
			told.mustBe(t, want)
			if away := want == cache.ResultAway; told.LookedUpAt.IsZero() != away {
				t.Errorf("%s: a look-up is told of at %s", want, told.LookedUpAt)
			}
			if n := b.store.counts[want]; n != 1 {
				t.Errorf("%s is counted %d times", want, n)
			}
		})
	}
}

func TestAnEntryThatCannotBeReadIsAsGoodAsNone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.ask(question{})
		for _, e := range b.store.entries {
			e.Answer = []byte("no answer")
		}
		b.ask(question{}).is(t, "with others", "It is answer 2.", cache.ResultError)
	})
}

func TestWhatATenantUsedIsSettledAndItsStandingTold(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		acme := identity.Caller{Tenant: "acme", TPM: 1000}
		first := b.ask(question{caller: acme, more: `,"max_tokens":900`})
		first.is(t, "the first", "It is answer 1.", cache.ResultMiss)
		if first.record.LimitStatus.Tokens.Limit != 1000 {
			t.Errorf("%+v", first.record.LimitStatus)
		}
		b.ask(question{caller: acme, more: `,"max_tokens":901`}).is(t, "what was not used is given back", "It is answer 2.", cache.ResultMiss)
		refused := b.ask(question{caller: acme, more: `,"max_tokens":2000`})
		if e, ok := errors.AsType[*ledger.LimitError](refused.err); !ok || !e.NeverFits || refused.head != nil {
			t.Errorf("%v", refused.err)
		}
		b.speaker.fails = func(int) error { return errEngine }
		for i := range 3 {
			if a := b.ask(question{caller: acme, more: `,"max_tokens":90` + string(rune('2'+i))}); !errors.Is(a.err, errEngine) {
				t.Errorf("where no engine worked, nothing is used: %v", a.err)
			}
		}
	})
}

func TestWhatTheCacheGivesCountsAgainstNoLimit(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		acme := identity.Caller{Tenant: "acme", RPM: 1}
		for i := range 5 {
			if a := b.ask(question{caller: acme}); a.err != nil {
				t.Errorf("request %d: %v", i, a.err)
			}
		}
		if a := b.ask(question{caller: acme, more: `,"max_tokens":9`}); a.err == nil {
			t.Error("a miss after that is let in: the limit holds nothing")
		}
	})
}

func TestARequestThatPassesThroughIsHeldToItsTenantsLimits(t *testing.T) {
	b := newBench(t, nil)
	b.judging.Timeouts.Total = time.Hour
	var record Record
	a := &Metadata{Identity: dispatch.Identity{ID: "id"}, Caller: identity.Caller{Tenant: "acme", TPM: 100}}
	env, err := openai.Peek("/v1/responses", []byte(`{"model":"m"}`), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	forward := func() error {
		f := Forward{Arrival: Arrival{Metadata: a, Route: b.route, Body: env}, Path: "/v1/responses"}
		return b.Forward(t.Context(), f, &reader{ctx: t.Context()}, &record)
	}
	if forward() == nil {
		t.Error("an answer of unknown length is let in with 100 tokens per minute")
	}
	a.Caller.TPM = 10_000
	if err := forward(); err != nil || record.Receipt == nil || record.LimitStatus.Tokens.Limit != 10_000 {
		t.Errorf("%v, %+v", err, record)
	}
}

func TestAnAnswerThatAwaitsTheTargetIsKeptOnlyOnceItIsConfirmed(t *testing.T) {
	awaits := func(_ int, a made, rc *Receipt) {
		rc.Tier, rc.AcceptedTokens = plan.Draft, 3
		rc.Decision.Plan, rc.Verdict.Accept, rc.Verdict.Reason = plan.Plan{Judged: true, Mode: plan.ModeRisk}, true, accept.ReasonConfident
		a.Confirmation.awaited = true
	}
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.drafts()
		b.speaker.judged = awaits
		b.ask(question{})
		b.ask(question{}).is(t, "before it is confirmed", "It is answer 2.", cache.ResultMiss)
		if n := b.store.kept(); n != 0 {
			t.Fatalf("%d kept before that", n)
		}
		b.speaker.asks[1].Confirmation.confirm(true)
		b.ask(question{}).is(t, "after that", "It is answer 2.", cache.ResultHit)
	})
}

// TestAfterARejectedDraftTheTargetAnswersTheSameRequest has the cascade make drafts while it may.
func TestAfterARejectedDraftTheTargetAnswersTheSameRequest(t *testing.T) {
	drafts := func(_ int, a made, rc *Receipt) {
		if rc.Tier = plan.Target; !a.Rejected {
			rc.Tier, rc.AcceptedTokens = plan.Draft, 3
			a.Confirmation.awaited = true
		}
	}
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.drafts()
		b.speaker.judged = drafts
		b.ask(question{})
		b.speaker.asks[0].Confirmation.confirm(false)
		b.ask(question{}).is(t, "after the target has rejected it", "It is answer 2.", cache.ResultMiss)
		if !b.speaker.asks[1].Rejected {
			t.Error("drafted again")
		}
		b.ask(question{}).is(t, "the target's answer", "It is answer 2.", cache.ResultHit)
	})
}

func TestOnlyAnswersThatMayServeOthersAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		adjust func(*bench)
		more   string
		kept   int
	}{
		"usual":              {func(*bench) {}, "", 1},
		"larger than may be": {func(b *bench) { b.cfg.MaxEntryBytes = 10 }, "", 0},
		"half an object":     {func(b *bench) { b.says(`{"a"`, `:1`) }, `,"response_format":{"type":"json_object"}`, 0},
		"an object":          {func(b *bench) { b.says(`{"a"`, `:1}`) }, `,"response_format":{"type":"json_object"}`, 1},
		"a draft for a target": {func(b *bench) {
			b.speaker.judged = func(_ int, _ made, rc *Receipt) { rc.Tier = plan.Draft }
		}, "", 0},
		"not as many as wanted": {func(*bench) {}, `,"n":2`, 0},
	} {
		inBubble(t, nil, func(t *testing.T, b *bench) {
			c.adjust(b)
			if a := b.ask(question{more: c.more}); a.err != nil || b.store.kept() != c.kept {
				t.Errorf("%s: %v, %d kept", name, a.err, b.store.kept())
			}
		})
	}
}

func TestAClientThatLeavesEndsItsGeneration(t *testing.T) {
	for _, on := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, b *bench) {
			b.cfg.Enabled = on
			ctx, leave := context.WithCancelCause(t.Context())
			a, done := b.begin(question{stream: true, ctx: ctx})
			synctest.Wait()
			leave(errLeft)
			<-done
			synctest.Wait()
			if a.err == nil || len(b.speaker.cancelled()) != 1 || b.store.kept() != 0 {
				t.Errorf("cache %t: %v, cancelled %v, %d kept", on, a.err, b.speaker.cancelled(), b.store.kept())
			}
		})
	}
}

func TestAnAnswerOfItsOwnIsNeverSharedOrKept(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.judging.Mode = plan.ModeVerify
		for i := range 2 {
			a := b.ask(question{more: `,"temperature":0.7`})
			if text, _ := a.text(t); a.record.Cache != cache.ResultBypass || !strings.Contains(text, string(rune('1'+i))) {
				t.Errorf("%q, %s", text, a.record.Cache)
			}
		}
	})
}

func TestARequestWaitsForASilentRedisOnceForCacheAndLimitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:1", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // no name to look up
			MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }() // ends with its connection
				return here, nil
			},
		})
		const budget = 15 * time.Millisecond
		store := cache.NewStore(cache.Options{Redis: silent})
		store.Heard(time.Now())
		p := NewPipeline(PipelineOptions{
			Cascade: newBench(t, nil).Cascade, Store: store, Ledger: ledger.New(ledger.Options{Redis: silent}),
			HighShare: func() float64 { return 1 },
		})
		for range 3 { // fewer than make it be left alone
			a := &Metadata{Caller: identity.Caller{Tenant: "acme", RPM: 6000, TPM: 1_000_000}}
			q := &request{Request: &Request{Arrival: Arrival{Metadata: a}, Services: &p.Services}, p: p, record: &Record{}, cacheable: true}
			ctx := calls.WithWaited(t.Context(), &q.patience)
			began := time.Now()
			if e, result := q.lookUp(ctx); e != nil || result != cache.ResultLate {
				t.Errorf("the look: %v", result)
			}
			reserved, err := p.reserve(ctx, a, estimate{prompt: 1, answer: 1}, q.record)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != budget {
				t.Errorf("the request waited for %v, want %v", took, budget)
			}
			reserved.Settle(-1, 0)
		}
		_ = silent.Close()
		time.Sleep(time.Minute) // what was asked ends
	})
}

func TestACopyIsNotServedForLongerThanAnswersAreKept(t *testing.T) {
	m := miniredis.RunT(t)
	store := cache.NewStore(cache.Options{
		Redis: redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true}), Budget: func() time.Duration { return 5 * time.Second },
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = store.Run(ctx) }()
	key, kept := cache.KeyOf(&cache.Parts{Tenant: "acme"}), make(chan struct{})
	store.Put(key, &cache.Entry{Created: time.Now().Add(-time.Minute), Answer: []byte("a")}, time.Hour, func() { close(kept) })
	<-kept
	if _, result := store.Look(t.Context(), key); result != cache.ResultHit {
		t.Fatalf("the look: %v", result)
	}
	for ttl, want := range map[time.Duration]bool{2 * time.Minute: true, 30 * time.Second: false} {
		p := NewPipeline(PipelineOptions{Cascade: newBench(t, nil).Cascade, Store: store})
		q := &request{Request: &Request{Services: &p.Services}, p: p, key: key, cacheable: true, cfg: cache.Config{TTL: ttl}}
		if e := q.local(); (e != nil) != want {
			t.Errorf("kept for %v, made a minute ago: served %t", ttl, e != nil)
		}
	}
}

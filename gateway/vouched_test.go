package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/scoring"
	"github.com/foregate/foregate/tiers/upstream"
)

// warming is evidence of a warm-up that serves every draft. The outcome of an audit is held until the test lets it go.
type warming struct {
	began  int64
	let    chan struct{}
	closed atomic.Int64
	bad    atomic.Int64
}

func (w *warming) View(risk.Key) risk.View {
	return risk.View{Threshold: 1e9, Floor: 1e9, Cautious: -1000, Seen: time.Now(), Warmup: risk.Warmup{Began: w.began}}
}
func (w *warming) Open(context.Context, audit.PendingAudit) (risk.OpenResult, error) {
	return risk.Learned, nil
}
func (w *warming) OpenWarmup(context.Context, risk.Key, string) (risk.OpenResult, error) {
	return risk.Opened, nil
}
func (w *warming) Drafted(risk.Key, int, int) {}
func (w *warming) Close(ctx context.Context, _ risk.Key, _ string, result risk.AuditResult) error {
	select {
	case <-w.let:
	case <-ctx.Done():
	}
	if result.Bad {
		w.bad.Add(1)
	}
	w.closed.Add(1)
	return nil
}

// startWarming is a gateway with a cache whose only route is in its warm-up.
func startWarming(t *testing.T, divergence float64) (*cacheBench, *kept, *warming, *vllmsim.Server) {
	t.Helper()
	draft := vllmsim.Start(t, vllmsim.Options{Model: "small", Profile: "a10g-8b", Divergence: divergence, Seed: 3, TimeScale: 200})
	target := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 3, TimeScale: 200})
	drafts, targets := warmPool(t, "drafts", "small", draft), warmPool(t, "warm-targets", "big", target)
	prober, err := probe.New(probe.Options{Transport: upstream.NewTransport(), Pools: []probe.Pool{
		{Name: "drafts", Model: "small", Backends: backendsOf(drafts)}, {Name: "warm-targets", Model: "big", Backends: backendsOf(targets)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := &warming{began: time.Now().UnixMicro(), let: make(chan struct{}, 100)}
	cfg := plan.Config{Mode: plan.ModeRisk, MidstreamFailover: true, Accept: accept.Config{MeanOffset: -.45, WindowOffset: -1.1, EntropyOffset: 1}, MaxPromptTokens: 1000,
		HoldbackTokens: 4, Holdback: time.Second, Scoring: scoring.Config{MaxTokens: 8192, MaxConcurrent: 4, Timeout: 10 * time.Second},
		Timeouts: plan.Timeouts{DraftFirstToken: 20 * time.Second, TargetFirstToken: 20 * time.Second, StreamIdle: 20 * time.Second, Total: time.Minute},
		Risk: plan.Risk{Rule: risk.Rule{MaxWrongRate: .1, ErrorProbability: .05, LeaseAudits: 2000, DriftRunLength: 1000}, Rates: risk.Rates{ColdStart: 1}, Label: plan.LabelLenient,
			MaxConcurrentAudits: 4, MaxStaleness: time.Minute, Warmup: true, WarmupDuration: time.Hour}}
	cascade, err := tiers.New(tiers.Options{Upstream: upstream.New(upstream.Options{}), Evidence: w, Capabilities: prober.Capabilities, Routes: []tiers.Route{{
		Model: "llama-3", Draft: drafts, Target: targets, SameTokenizer: true, Config: func() plan.Config { return cfg }}}})
	if err != nil {
		t.Fatal(err)
	}
	k := newKept(t)
	b := startCached(t, target.URL(), k, func(o *Options) {
		o.Cascade = cascade
		o.Background = append(o.Background, BackgroundTask{Name: "warm", Run: cascade.Run}, BackgroundTask{Name: "prober", Run: prober.Run})
	})
	soon(t, "the pools are probed", func() bool { return prober.Capabilities("drafts") != nil && prober.Capabilities("warm-targets") != nil })
	return b, k, w, target
}

func warmPool(t *testing.T, name, model string, sim *vllmsim.Server) *pool.Pool {
	t.Helper()
	p, err := pool.New(pool.Options{Name: name, Model: model, Backends: []string{sim.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func backendsOf(p *pool.Pool) func() []probe.Backend {
	return func() (out []probe.Backend) {
		for _, b := range p.Snapshot() {
			out = append(out, probe.Backend{ID: b.ID, URL: b.URL, Up: !b.Down, Life: 1})
		}
		return out
	}
}

// marked fails unless an answer is told to be a warm-up's.
func (s clientResult) marked(t *testing.T, what string) {
	t.Helper()
	if s.code != 200 || s.broken || s.extra["tier"] != "draft" || s.extra["phase"] != "warmup" {
		t.Fatalf("%s: %+v", what, s)
	}
}

func TestADraftOfAWarmupIsKeptOnceItsAuditHasPassed(t *testing.T) {
	for _, stream := range []bool{false, true} {
		b, k, w, _ := startWarming(t, 0)
		q := question{more: `,"max_tokens":24`, stream: stream}
		first := b.say(t.Context(), q)
		first.marked(t, "the first")
		if !stream && !receipt.IsWarmup(first.header.Get("X-Acceptance")) {
			t.Errorf("the first: %v", first.header)
		}
		second := b.say(t.Context(), q)
		second.marked(t, "before its audit has passed")
		if second.header.Get("X-Cache") != "MISS" || len(k.answers()) != 0 {
			t.Errorf("before its audit has passed: %s, %d kept", second.header.Get("X-Cache"), len(k.answers()))
		}
		w.let <- struct{}{}
		w.let <- struct{}{}
		soon(t, "it is kept", func() bool { return len(k.answers()) == 1 })
		third := b.say(t.Context(), q)
		third.fine(t, "after its audit has passed", first.text, "HIT")
		third.marked(t, "after its audit has passed")
		if w.bad.Load() != 0 {
			t.Error("the target's own answers are refused")
		}
	}
}

func TestADraftOfAWarmupWhoseAuditFailedOrWasLostIsNeverKept(t *testing.T) {
	for what, lost := range map[string]bool{"failed": false, "lost": true} {
		t.Run(what, func(t *testing.T) {
			divergence := 1.0
			if lost {
				divergence = 0
			}
			b, k, w, target := startWarming(t, divergence)
			if lost {
				if err := target.SetFault(vllmsim.Fault{Score: "error"}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 3 {
				b.say(t.Context(), question{more: fmt.Sprintf(`,"max_tokens":%d`, 120-i)}).marked(t, what)
				w.let <- struct{}{}
			}
			if lost {
				if again := b.say(t.Context(), question{more: `,"max_tokens":120`}); again.header.Get("X-Cache") != "MISS" || len(k.answers()) != 0 {
					t.Errorf("%s, %d kept", again.header.Get("X-Cache"), len(k.answers()))
				}
				return
			}
			soon(t, "the audits are over", func() bool { return w.closed.Load() == 3 })
			if w.bad.Load() != 3 {
				t.Fatalf("%d of 3 audits are bad: the test shows nothing", w.bad.Load())
			}
			soon(t, "the target answers the same request", func() bool {
				again := b.say(t.Context(), question{more: `,"max_tokens":120`})
				return again.extra["reason"] == plan.ReasonRejectedBefore && again.extra["tier"] == "target"
			})
			soon(t, "the target's answer is kept", func() bool {
				again := b.say(t.Context(), question{more: `,"max_tokens":120`})
				return again.header.Get("X-Cache") == "HIT" && again.extra["tier"] == "target" && len(k.answers()) == 1
			})
		})
	}
}

func TestThoseWhoShareADraftOfAWarmupAreToldSo(t *testing.T) {
	b, k, w, _ := startWarming(t, 0)
	var wg sync.WaitGroup
	answers := make([]clientResult, 6)
	for i := range answers {
		wg.Go(func() { answers[i] = b.say(t.Context(), question{more: `,"max_tokens":24`, stream: i%2 == 0}) })
	}
	wg.Wait()
	made := 0
	for i, s := range answers {
		s.marked(t, "shared")
		if s.text != answers[0].text {
			t.Errorf("%d: %q, not %q", i, s.text, answers[0].text)
		}
		if s.header.Get("X-Cache") == "MISS" {
			made++
		}
	}
	if len(k.answers()) != 0 {
		t.Errorf("%d kept before an audit has passed", len(k.answers()))
	}
	for range made {
		w.let <- struct{}{}
	}
	soon(t, "it is kept", func() bool { return len(k.answers()) == 1 })
	soon(t, "all audits are over", func() bool { return w.closed.Load() == int64(made) })
}

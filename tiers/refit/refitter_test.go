package refit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// world is what replicas share in a test: a log of audits that a run plays, the settings, and a store.
type world struct {
	*run
	mu      sync.Mutex
	live    int
	set     bool
	auto    bool
	swaps   []Promotion
	failing error // of the settings
}

// book is a store whose log is the run's.
type book struct {
	*evidence.Store
	w       *world
	failing error // of records
	broken  bool  // its scores make the round of a route panic
}

func (b *book) Log(_ context.Context, visit func(evidence.LogEntry) error) error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	for _, e := range b.w.log {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) Maps(ctx context.Context, route string) ([]evidence.SavedMap, error) {
	if b.broken {
		panic("scores that nobody can read")
	}
	return b.Store.Maps(ctx, route)
}

func (b *book) WriteRefit(ctx context.Context, route, was, next string) (bool, error) {
	if b.failing != nil {
		return false, b.failing
	}
	return b.Store.WriteRefit(ctx, route, was, next)
}

func newWorld(seed uint64) *world {
	return &world{run: newRun(telling, usual, seed), auto: true}
}

// join adds a replica.
func (w *world) join(t *testing.T, client redis.UniversalClient) (*Refitter, *book) {
	t.Helper()
	b := &book{w: w, Store: evidence.New(evidence.Options{
		Redis: client, Rule: func(string) risk.Rule { return usual }, Logger: zerolog.Nop(), Now: func() time.Time { return w.now },
	})}
	r := New(Options{
		Book: b, Routes: func() []string { return []string{"org/chat", "other"} }, Registerer: prometheus.NewRegistry(), Logger: zerolog.Nop(),
		Route: func(name string) Route {
			w.mu.Lock()
			defer w.mu.Unlock()
			return Route{Auto: w.auto && name == "org/chat", Live: w.live, Set: w.set, Rule: usual}
		},
		Promote: func(_ context.Context, p Promotion) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case w.failing != nil:
				return w.failing
			case w.live != p.From:
				return errors.New("it was changed by somebody else")
			}
			w.swaps = append(w.swaps, p)
			w.live, w.set = p.To, true
			return nil
		},
	})
	return r, b
}

// come lets full-range audits come.
func (w *world) come(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.state
	w.state.Version = 1
	w.audit(n)
	w.state = was
}

// each runs a test without a Redis and with one.
func each(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("process", func(t *testing.T) { test(t, nil) })
	t.Run("redis", func(t *testing.T) {
		test(t, redistest.Client(t, redistest.Background(redistest.Start(t).Addr)))
	})
}

func (r *Refitter) count(outcome string) int {
	return int(testutil.ToFloat64(r.metrics.refits.WithLabelValues("org/chat", outcome)))
}

func TestARefitIsFittedCertifiedAndPutInForce(t *testing.T) {
	each(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(1)
		r, b := w.join(t, client)
		r.Round(t.Context())
		if r.Collects("org/chat") {
			t.Fatal("a candidate of no audits")
		}
		w.come(600)
		r.Round(t.Context())
		p := r.Progress("org/chat")
		if p.Version != 1 || !r.Collects("org/chat") || r.Collects("other") || r.count(outcomeFitted) != 1 || w.live != 0 {
			t.Fatalf("%+v, version %d in force", p, w.live)
		}
		for range 20 {
			w.come(100)
			if r.Round(t.Context()); w.live != 0 {
				break
			}
		}
		if w.live != 1 || r.count(outcomePromoted) != 1 || r.Collects("org/chat") || !strings.HasPrefix(w.swaps[0].Why, "candidate v1: ") {
			t.Fatalf("version %d in force, %+v", w.live, r.Progress("org/chat"))
		}
		states, err := b.All(t.Context())
		if i := slices.IndexFunc(states, func(k evidence.KeyState) bool { return k.Key == plan.ScoredBy(chat, 1) }); err != nil || i < 0 || !states[i].State.View(usual).Serves() {
			t.Errorf("%v: the candidate's key serves nothing", err)
		}
		w.come(100)
		if r.Round(t.Context()); w.live != 1 || len(w.swaps) != 1 {
			t.Errorf("version %d in force after %d changes", w.live, len(w.swaps))
		}
	})
}

func TestTwoReplicasAtOnceMakeOneCandidateAndOneChange(t *testing.T) {
	client := redistest.Client(t, redistest.Background(redistest.Start(t).Addr))
	w := newWorld(1)
	a, b := w.join(t, client)
	other, _ := w.join(t, client)
	w.come(600)
	for range 20 {
		var both sync.WaitGroup
		for _, r := range []*Refitter{a, other} {
			both.Go(func() { r.Round(t.Context()) })
		}
		both.Wait()
		if w.live != 0 {
			break
		}
		w.come(100)
	}
	if saved, err := b.Maps(t.Context(), "org/chat"); err != nil || len(saved) != 1 || w.live != 1 || len(w.swaps) != 1 {
		t.Errorf("%v: %d scores saved, version %d in force after %d changes", err, len(saved), w.live, len(w.swaps))
	}
	if a.count(outcomePromoted)+other.count(outcomePromoted) != 1 {
		t.Error("both promoted it")
	}
}

func TestARefitGoesOnWhereReplicasOrRedisFailed(t *testing.T) {
	each(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(1)
		r, b := w.join(t, client)
		w.come(600)
		r.Round(t.Context())
		w.come(800)
		w.failing = errors.New("Redis does not answer")
		for range 2 { // the keys are open, and the setting is not changed
			if r.Round(t.Context()); w.live != 0 || r.Progress("org/chat").Version != 1 {
				t.Fatalf("version %d in force, %+v", w.live, r.Progress("org/chat"))
			}
		}
		w.failing, b.failing = nil, errors.New("Redis does not answer") // the setting is changed, and nobody knows
		if r.Round(t.Context()); w.live != 1 {
			t.Fatalf("version %d in force, %+v", w.live, r.Progress("org/chat"))
		}
		b.failing = nil
		w.come(10)
		r.Round(t.Context())
		if p := r.Progress("org/chat"); p.Version != 0 || p.Promoted != 1 || len(w.swaps) != 1 {
			t.Errorf("%+v after %d changes", p, len(w.swaps))
		}
	})
}

func TestAnOperatorIsToldOnceWhereTheGatewayMayNotChangeSettings(t *testing.T) {
	w := newWorld(1)
	r, _ := w.join(t, nil)
	w.come(600)
	r.Round(t.Context())
	w.come(800)
	w.failing = ErrReadOnly
	for range 3 {
		r.Round(t.Context())
	}
	if p := r.Progress("org/chat"); !p.Waiting || !strings.HasSuffix(p.String(), "set risk.score_version to 1") || r.count(outcomeReadOnly) != 1 {
		t.Errorf("%s, told %d times", p, r.count(outcomeReadOnly))
	}
	w.live, w.set = 1, true
	if r.Round(t.Context()); r.Progress("org/chat").Promoted != 1 {
		t.Errorf("%+v", r.Progress("org/chat"))
	}
}

func TestWhatAnOperatorChoseStays(t *testing.T) {
	w := newWorld(1)
	r, _ := w.join(t, nil)
	w.come(1500)
	for _, live := range []int{0, 7} {
		w.live, w.set = live, true
		if r.Round(t.Context()); r.Progress("org/chat").Version != 0 || r.Collects("org/chat") {
			t.Errorf("version %d: %+v", live, r.Progress("org/chat"))
		}
	}
	w.live, w.set, w.auto = 0, false, false
	if r.Round(t.Context()); r.Collects("org/chat") {
		t.Error("a candidate where refits are off")
	}
}

func TestForeignRecordsAndScoresDoNoHarm(t *testing.T) {
	each(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(1)
		r, b := w.join(t, client)
		if done, err := b.Store.WriteRefit(t.Context(), "org/chat", "", "{"); !done || err != nil {
			t.Fatal(done, err)
		}
		w.come(600)
		if r.Round(t.Context()); r.Progress("org/chat").Version != 1 || r.count(outcomeForeign) != 1 {
			t.Fatalf("%+v", r.Progress("org/chat"))
		}
		foreign, _ := json.Marshal("no score")
		version, err := b.SaveMap(t.Context(), "org/chat", foreign, 0)
		p := r.Progress("org/chat")
		was := p.Encode()
		p.Version = version
		if done, _ := b.Store.WriteRefit(t.Context(), "org/chat", was, p.Encode()); !done || err != nil {
			t.Fatal(done, err)
		}
		w.come(100)
		if r.Round(t.Context()); r.Progress("org/chat").Version != 0 || r.count(string(DropMissing)) != 1 || w.live != 0 {
			t.Errorf("%+v: its score is %s", r.Progress("org/chat"), foreign)
		}
	})
}

func TestAScoreThatTellsNothingIsNoCandidate(t *testing.T) {
	w := newWorld(2)
	w.law = populationOf(20_000, 1.5, 0, accept.Features{}, 5)
	r, _ := w.join(t, nil)
	w.come(600)
	if r.Round(t.Context()); r.Progress("org/chat").Version != 0 || r.count(outcomeNoGain) != 1 {
		t.Errorf("%+v", r.Progress("org/chat"))
	}
	w.come(100)
	if r.Round(t.Context()); r.count(outcomeNoGain) != 1 {
		t.Error("it was fitted again after 100 audits")
	}
}

func TestAPanicEndsTheRoundOfARouteOnly(t *testing.T) {
	w := newWorld(1)
	r, b := w.join(t, nil)
	b.broken = true
	if r.Round(t.Context()); r.count(outcomePanic) != 1 {
		t.Errorf("%d panics were counted", r.count(outcomePanic))
	}
	b.broken = false
	w.come(600)
	if r.Round(t.Context()); r.Progress("org/chat").Version != 1 {
		t.Errorf("%+v", r.Progress("org/chat"))
	}
}

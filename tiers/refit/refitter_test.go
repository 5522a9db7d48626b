package refit

import (
	"context"
	"errors"
	"reflect"
	"slices"
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
	mu   sync.Mutex
	auto bool
}

// book is a store whose log is the run's.
type book struct {
	*evidence.Store
	w       *world
	failing error // of records
}

func (b *book) Audits(context.Context, string) ([]risk.LogEntry, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.Clone(b.w.log), nil
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
		Book: b, Registerer: prometheus.NewRegistry(), Logger: zerolog.Nop(),
		Rules: func() map[string]risk.Rule {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.auto {
				return nil
			}
			return map[string]risk.Rule{"org/chat": usual}
		},
	})
	return r, b
}

// come lets full-range audits come.
func (w *world) come(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Candidate.Version = 1 // else audits have a floor
	w.audit(n)
}

// each runs a test without a Redis and with one.
func each(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("process", func(t *testing.T) { test(t, nil) })
	t.Run("redis", func(t *testing.T) {
		test(t, redistest.Client(t, redistest.Background(redistest.Start(t).Addr)))
	})
}

func (r *Refitter) count(outcome string) int {
	return int(testutil.ToFloat64(r.counted.WithLabelValues("org/chat", outcome)))
}

// live is the version of the score in force, as a replica knows it.
func (r *Refitter) live() int {
	if m := r.Score("org/chat"); m != nil {
		return m.Version
	}
	return 0
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
		if p.Candidate.Version != 1 || !r.Collects("org/chat") || r.Collects("other") || r.count(outcomeFitted) != 1 || r.live() != 0 {
			t.Fatalf("%+v, version %d in force", p, r.live())
		}
		for range 20 {
			w.come(100)
			if r.Round(t.Context()); r.live() != 0 {
				break
			}
		}
		if m := r.Score("org/chat"); m == nil || !reflect.DeepEqual(*m, p.Candidate) || r.count(outcomePromoted) != 1 || r.Collects("org/chat") || r.Score("other") != nil {
			t.Fatalf("version %d in force, %+v", r.live(), r.Progress("org/chat"))
		}
		states, err := b.All(t.Context())
		if i := slices.IndexFunc(states, func(k risk.KeyState) bool { return k.Key == plan.ScoredBy(chat, 1) }); err != nil || i < 0 || !states[i].State.View(usual).Serves() {
			t.Errorf("%v: the candidate's key serves nothing", err)
		}
		w.come(100)
		if r.Round(t.Context()); r.live() != 1 || r.count(outcomePromoted) != 1 {
			t.Errorf("version %d in force after %d promotions", r.live(), r.count(outcomePromoted))
		}
		w.auto = false
		if r.Round(t.Context()); r.Score("org/chat") != nil {
			t.Error("refits are off, and a fitted score is in force")
		}
		w.auto = true
		if r.Round(t.Context()); r.live() != 1 {
			t.Error("refits are on again, and the fitted score is gone")
		}
	})
}

func TestTwoReplicasAtOnceMakeOneCandidateAndOneChange(t *testing.T) {
	client := redistest.Client(t, redistest.Background(redistest.Start(t).Addr))
	w := newWorld(1)
	a, _ := w.join(t, client)
	other, _ := w.join(t, client)
	w.come(600)
	both := func() {
		var both sync.WaitGroup
		for _, r := range []*Refitter{a, other} {
			both.Go(func() { r.Round(t.Context()) })
		}
		both.Wait()
	}
	for range 20 {
		if both(); a.live() != 0 || other.live() != 0 {
			break
		}
		w.come(100)
	}
	both() // the other one reads it
	if a.live() != 1 || other.live() != 1 {
		t.Errorf("versions %d and %d in force", a.live(), other.live())
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
		b.failing = errors.New("Redis does not answer")
		for range 2 { // the keys are open, and the record is not changed
			if r.Round(t.Context()); r.live() != 0 || r.Progress("org/chat").Candidate.Version != 1 || r.count(outcomePromoted) != 0 {
				t.Fatalf("version %d in force, %+v", r.live(), r.Progress("org/chat"))
			}
		}
		b.failing = nil
		w.come(10)
		r.Round(t.Context())
		if p := r.Progress("org/chat"); p.Candidate.Version != 0 || r.live() != 1 {
			t.Errorf("%+v", p)
		}
	})
}

func TestARecordThatIsLostPutsThePlainScoreInForceAndItsNumberIsNotGivenAgain(t *testing.T) {
	each(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(1)
		r, b := w.join(t, client)
		w.come(600)
		r.Round(t.Context())
		w.come(800)
		if r.Round(t.Context()); r.live() != 1 {
			t.Fatalf("version %d in force", r.live())
		}
		if done, err := b.Store.WriteRefit(t.Context(), "org/chat", b.Refit("org/chat"), "{"); !done || err != nil {
			t.Fatal(done, err)
		}
		if r.Round(t.Context()); r.live() != 0 || r.count(outcomeForeign) != 1 {
			t.Errorf("version %d in force", r.live())
		}
		if p := r.Progress("org/chat"); p.Candidate.Version != 2 {
			t.Errorf("%+v: the key of number 1 has evidence of another score", p)
		}
	})
}

func TestAScoreThatTellsNothingIsNoCandidate(t *testing.T) {
	w := newWorld(2)
	w.law = populationOf(20_000, 1.5, 0, accept.Features{}, 5)
	r, _ := w.join(t, nil)
	w.come(600)
	if r.Round(t.Context()); r.Progress("org/chat").Candidate.Version != 0 || r.count(outcomeNoGain) != 1 {
		t.Errorf("%+v", r.Progress("org/chat"))
	}
	w.come(100)
	if r.Round(t.Context()); r.count(outcomeNoGain) != 1 {
		t.Error("it was fitted again after 100 audits")
	}
}

package breaker

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

// unlocked fails the test where the goroutine that calls it holds the set's lock.
type unlocked struct {
	t     *testing.T
	set   *Set
	mu    sync.Mutex
	calls map[string]int
}

func (u *unlocked) check(where string) {
	if u.set == nil {
		return // New has not returned yet
	}
	for range 100_000 { // what another goroutine holds is free in a moment
		if u.set.mu.TryLock() {
			u.set.mu.Unlock()
			u.mu.Lock()
			defer u.mu.Unlock()
			u.calls[where]++
			return
		}
		runtime.Gosched()
	}
	u.t.Errorf("%s runs under the set's lock", where)
}

// Write implements io.Writer for the log.
func (u *unlocked) Write(b []byte) (int, error) { u.check("the log"); return len(b), nil }

func TestNothingIsCalledUnderTheSetsLock(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		u := &unlocked{t: t, calls: map[string]int{}}
		var healthy atomic.Bool
		m := join(t, o, "r0", &site{}, func(o *Options) {
			o.Logger = zerolog.New(u)
			o.Config = func() Config { u.check("Config"); return DefaultConfig() }
			o.Classify = func(err error) Outcome { u.check("Classify"); return judge(err) }
			o.Probe = func(context.Context, string, string) error {
				u.check("Probe")
				if !healthy.Load() {
					return errBad
				}
				return nil
			}
		})
		m.client.AddHook(hook{func() { u.check("Redis") }})
		u.set = m.Set
		m.Retain("big", members)
		m.calls("a", 5, errBad) // while nobody runs: a request tests it
		time.Sleep(12 * time.Second)
		m.calls("a", 1, context.Canceled)
		m.calls("a", 1, nil)
		stop := m.run(t)
		m.calls("b", 8, errBad)
		time.Sleep(10 * time.Second)
		healthy.Store(true)
		time.Sleep(20 * time.Second)
		if s := m.state("b"); s.State != Closed {
			t.Errorf("%+v", s)
		}
		m.Retain("big", members[:1])
		stop()
		for _, where := range []string{"Config", "Classify", "Probe", "Redis", "the log"} {
			if u.calls[where] == 0 {
				t.Errorf("%s was not called", where)
			}
		}
	})
}

// hook is called before every round trip.
type hook struct{ before func() }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.before(); return next(ctx, cmd) }
}
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h.before(); return next(ctx, cmds) }
}

// TestAnOutcomeThatComesLateDoesNotShortenTheOpenTime: at any outcome gobreaker looks at its own
// time-out, which is shorter than the open time.
func TestAnOutcomeThatComesLateDoesNotShortenTheOpenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		late, err := s.Allow("big", "a")
		if err != nil {
			t.Fatal(err)
		}
		tell(t, s, 5, errBad)
		left := s.States()[0].Remaining
		time.Sleep(6 * time.Second) // gobreaker's time-out is 5 s, and the open time 8 s at least
		late.Report(nil)
		wantOpen(t, s, true)
		if got := s.States()[0]; got.State != Open || got.Remaining != left-6*time.Second {
			t.Errorf("%+v after 6 of %v", got, left)
		}
		time.Sleep(left - 6*time.Second)
		tell(t, s, 1, nil)
		if got := s.States()[0]; got.State != Closed {
			t.Errorf("after its trial: %+v", got)
		}
	})
}

// TestManyWhoCallAtOnceLoseNoTrial has breakers open, be tried and close under many goroutines:
// at the end a success must close them. Those that call see at most one trial at a time.
func TestManyWhoCallAtOnceLoseNoTrial(t *testing.T) {
	s := New(Options{
		Config: func() Config {
			return Config{Failures: 2, Open: 20 * time.Microsecond}
		},
		Classify: classify, Registerer: prometheus.NewPedanticRegistry(),
	})
	var bad, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for range 3000 {
				permit, err := s.Allow("big", "a")
				switch {
				case errors.Is(err, ErrOpen):
					refused.Add(1)
				case err != nil:
					bad.Add(1)
				default:
					permit.Report([]error{nil, errBad, errBad, errBusy}[rng.IntN(4)])
				}
			}
		})
	}
	wg.Wait()
	if bad.Load() > 0 || refused.Load() == 0 {
		t.Errorf("%d other errors, %d refused", bad.Load(), refused.Load())
	}
	redistest.Within(t, 10*time.Second, "a success closes it", func() bool {
		if permit, err := s.Allow("big", "a"); err == nil {
			permit.Report(nil)
		}
		return s.States()[0].State == Closed
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	e := (*s.entries.Load())[Key{Pool: "big", Backend: "a"}]
	if f := e.facts; f.Own != (ownState{Cut: f.Own.Cut}) || f.WasShown != Closed {
		t.Errorf("%+v", f)
	}
}

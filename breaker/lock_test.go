package breaker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/tiers/world"
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
	synctest.Test(t, func(t *testing.T) {
		u := &unlocked{t: t, calls: map[string]int{}}
		s := New(Options{
			Logger: zerolog.New(u), Replica: "r",
			Config:   func() Config { u.check("Config"); return usual },
			Classify: func(err error) Outcome { u.check("Classify"); return classify(err) },
			Probe:    func(context.Context, string, string) error { u.check("Probe"); return nil },
			Mine:     func(string, string) bool { u.check("Mine"); return true },
			Wake:     func() { u.check("Wake") },
			World:    world.System{}, Draw: rand.Float64,
		})
		u.set = s
		s.Retain("big", members)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		m := &member{Set: s}
		m.calls("a", 8, errBad)
		for range 20 {
			s.Take("r", s.Tell()["r"], 0)
			time.Sleep(time.Second)
		}
		if st := m.state("a"); st.State != Closed {
			t.Errorf("%+v", st)
		}
		s.Retain("big", members[:1])
		cancel()
		wg.Wait()
		for _, where := range []string{"Config", "Classify", "Probe", "Mine", "Wake", "the log"} {
			if u.calls[where] == 0 {
				t.Errorf("%s was not called", where)
			}
		}
	})
}

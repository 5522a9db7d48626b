package breaker

import (
	"context"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

const (
	lookEvery    = 250 * time.Millisecond // between two looks for breakers to test
	idleEvery    = time.Second            // while all are closed; none is due sooner after it has opened
	probeWait    = 2 * time.Second        // bounds a probe
	successPause = 100 * time.Millisecond // between the probes that must succeed in a row
	maxTests     = 32                     // of this replica at a time
	wellCloses   = 2                      // probes in a row that must succeed
)

// Run tests open breakers with probes until ctx ends. It returns nil after everything that it started has ended. It may
// run once at a time, and again after a panic.
func (s *Set) Run(ctx context.Context) error {
	tests := world.NewTasks(world.TaskOptions{World: s.o.World, Max: maxTests, OnPanic: func() {
		s.o.Logger.Error().Msg("breaker: a probe has panicked")
	}})
	ctx, cancel := s.o.World.WithCancel(ctx)
	tests.Begin(ctx)
	defer tests.Wait()
	defer cancel(nil) // before the wait, so that a panic does not block for ever
	defer func() { s.look(nil) }()
	s.probes.Store(true)
	defer s.probes.Store(false)
	for s.o.World.Sleep(ctx, s.look(tests)) == nil {
	}
	return nil
}

// look handles changes by time alone, and starts tests that are due. It returns the time until the next look.
func (s *Set) look(tests *world.Tasks) (pause time.Duration) {
	now := s.o.World.Now()
	pause = idleEvery
	for _, e := range s.inOrder() {
		v, name := s.change(e, now, func() {}), e.Backend
		if v.state != Closed {
			pause = lookEvery
		}
		if v.turn > 1 {
			// After a test that failed another replica tests: what failed may be the last one's way.
			name += "#" + strconv.Itoa(v.turn)
		}
		if tests == nil || !v.due || v.turn > 0 && !s.o.Mine(e.Pool, name) || e.probing.Swap(true) {
			continue
		}
		if !tests.Start((wellCloses+1)*probeWait, func(ctx context.Context) {
			defer e.probing.Store(false)
			s.test(ctx, e)
		}) {
			e.probing.Store(false)
		}
	}
	return pause
}

// test tests a breaker: it ends with the first fault, or with as many successes as close. A busy backend is alive.
func (s *Set) test(ctx context.Context, e *entry) {
	s.change(e, s.o.World.Now(), func() { e.restarted = false })
	for well, again := 1, true; again; well++ {
		bounded, cancel := s.o.World.WithTimeout(ctx, probeWait)
		err := s.o.Probe(bounded, e.Pool, e.Backend)
		o, late, now := s.o.Classify(err), bounded.Err() != nil, s.o.World.Now()
		cancel()
		switch {
		case ctx.Err() != nil || o == Neutral:
			return // this replica stops, or the probe says nothing
		case err != nil && late:
			o = Fault
		case o == Backpressure:
			o = Success
		}
		s.change(e, now, func() {
			if again = e.open && o == Success && well < wellCloses; e.open && !again {
				e.faults = 1
				e.move(o != Success, e.fleet, o == Unreachable, now)
			}
		})
		again = again && s.o.World.Sleep(ctx, successPause) == nil
	}
	s.o.Wake()
}

package breaker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithoutRedisABreakerIsTestedByProbesAndNeverByARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		var well atomic.Bool
		m := &member{Set: New(Options{Classify: judge, Probe: func(context.Context, string, string) error {
			if probes.Add(1); well.Load() {
				return nil
			}
			return errBad
		}})}
		m.Retain("big", []string{"a", "b"})
		stop := m.run(t)
		defer stop()
		m.calls("a", 5, errBad)
		made := 0
		for range 40 {
			time.Sleep(time.Second)
			synctest.Wait()
			made += m.calls("a", 1, nil)
		}
		if n := probes.Load(); made > 0 || n < 3 || n > 6 {
			t.Errorf("%d requests went to a breaker that is open, %d probes", made, n)
		}
		well.Store(true)
		time.Sleep(13 * time.Second)
		synctest.Wait()
		if m.Open("big", "a") || m.calls("a", 1, nil) != 1 {
			t.Errorf("two probes succeeded, and it is open: %+v", m.States())
		}
	})
}

func TestABackendThatWasRestartedIsTestedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		m := &member{Set: New(Options{Classify: judge, Probe: func(context.Context, string, string) error {
			if well.Load() {
				return nil
			}
			return errBad
		}})}
		m.Retain("big", []string{"a", "b"})
		stop := m.run(t)
		defer stop()
		m.calls("a", 5, errBad)
		for _, c := range []struct{ well, closed bool }{{false, false}, {true, true}} {
			well.Store(c.well)
			m.Restarted("big", "a")
			time.Sleep(time.Second)
			synctest.Wait()
			if closed := !m.Open("big", "a"); closed != c.closed {
				t.Errorf("well %v: closed %v a second after a restart", c.well, closed)
			}
		}
		m.Restarted("big", "a")
		m.calls("a", 5, errBad)
		if time.Sleep(time.Second); m.calls("a", 1, nil) != 0 || !m.Open("big", "a") {
			t.Error("a restart while it was closed ends a later open time")
		}
	})
}

func TestABreakerWhoseRunHasEndedIsTriedByOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &member{Set: New(Options{Classify: judge, Probe: func(context.Context, string, string) error { return errBad }})}
		m.Retain("big", []string{"a", "b"})
		stop := m.run(t)
		m.calls("a", 5, errBad)
		time.Sleep(time.Second)
		stop()
		time.Sleep(12 * time.Second)
		if m.calls("a", 2, nil) == 0 {
			t.Error("nobody tests it")
		}
	})
}

func TestAProbeOfABackendThatIsBusyCountsAsASuccess(t *testing.T) {
	for probe, want := range map[error]Outcome{
		nil: Success, errBusy: Success, errBad: Fault, errUnreachable: Unreachable, context.Canceled: Neutral,
	} {
		s := New(Options{Classify: judge, Probe: func(context.Context, string, string) error { return probe }})
		if got := s.once(t.Context(), s.entry(Key{Pool: "big", Backend: "a"})); got != want {
			t.Errorf("%v: outcome %d, want %d", probe, got, want)
		}
	}
}

func TestShutHoldsForAPoolThatTheFloorKeepsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ids := pooled(1)
		m.calls(ids[0], 5, errBad)
		if m.Open("big", ids[0]) || !m.Shut("big", ids[0]) {
			t.Errorf("open %v, shut %v", m.Open("big", ids[0]), m.Shut("big", ids[0]))
		}
		m.calls(ids[0], 3, errBad)
		if !m.Shut("big", ids[0]) {
			t.Error("not shut after more calls")
		}
	})
}

package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// alone runs a replica that hears of no other.
func alone(t *testing.T, probe func(backend string) error) (m *member) {
	t.Helper()
	m = &member{Set: set(Options{Probe: func(_ context.Context, _, backend string) error { return probe(backend) }})}
	m.Retain("big", []string{"a", "b"})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	m.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(m.stop)
	synctest.Wait()
	return m
}

func TestAloneABreakerIsTestedByProbesAndNeverByARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		var well atomic.Bool
		m := alone(t, func(string) error {
			if probes.Add(1); well.Load() {
				return nil
			}
			return errUnreachable
		})
		m.calls("a", 5, errBad)
		made := 0
		for range 40 {
			time.Sleep(time.Second)
			made += m.calls("a", 1, nil)
		}
		if n := probes.Load(); made > 0 || n < 3 || n > 6 || m.state("a").Alone {
			t.Errorf("%d requests went to a breaker that is open, %d probes, %+v", made, n, m.States())
		}
		well.Store(true)
		time.Sleep(13 * time.Second)
		if m.Open("big", "a") || m.calls("a", 1, nil) != 1 {
			t.Errorf("two probes succeeded, and it is open: %+v", m.States())
		}
	})
}

func TestABreakerWhoseRunHasEndedClosesAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := alone(t, func(string) error { return errBad })
		m.calls("a", 5, errBad)
		time.Sleep(time.Second)
		m.stop()
		if m.calls("a", 1, nil) != 0 {
			t.Error("its open time is not over")
		}
		time.Sleep(12 * time.Second)
		if m.calls("a", 1, nil) != 1 || m.Open("big", "a") {
			t.Error("nobody tests it")
		}
	})
}

func TestAProbeThatPanicsOrHangsEndsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		m := alone(t, func(string) error {
			switch probes++; probes {
			case 1:
				panic("a probe")
			case 2:
				time.Sleep(3 * time.Second) // longer than it may
				return errBad
			}
			return nil
		})
		m.calls("a", 5, errBad)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if probes != 4 || m.Open("big", "a") {
			t.Errorf("%d probes, %+v", probes, m.States())
		}
	})
}

func TestAProbeOfABackendThatIsBusyCountsAsASuccess(t *testing.T) {
	for probe, want := range map[error]State{nil: Closed, errBusy: Closed, errBad: Open, errUnreachable: Open, context.Canceled: HalfOpen} {
		synctest.Test(t, func(t *testing.T) {
			m := alone(t, func(string) error { return probe })
			m.calls("a", 5, errBad)
			if time.Sleep(14 * time.Second); m.state("a").State != want {
				t.Errorf("%v: %+v, want %s", probe, m.state("a"), want)
			}
		})
	}
}

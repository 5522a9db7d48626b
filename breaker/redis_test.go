package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// slack is what a busy machine may add to a time that is promised.
const slack = 500 * time.Millisecond

// members is the pool of these tests.
var members = []string{"a", "b", "c", "d"}

// together has every replica of a fleet know the pool, and waits until all have heard of it.
func together(t *testing.T, all []*member) {
	t.Helper()
	for _, m := range all {
		if len(m.States()) == 0 {
			m.Retain("big", members)
		}
	}
	redistest.Within(t, 10*time.Second, "all have heard of every backend", func() bool {
		return !slices.ContainsFunc(all, func(m *member) bool { return !m.shares() })
	})
}

// shares reports whether a replica has the fleet's word on all backends.
func (m *member) shares() bool {
	for _, e := range *m.entries.Load() {
		m.mu.Lock()
		word := e.facts.Fleet
		m.mu.Unlock()
		if !word.Fresh(time.Now()) {
			return false
		}
	}
	return true
}

func TestATripIsSeenByEightReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	trips := make([]string, 24)
	for i := range trips {
		trips[i] = fmt.Sprint("b", i)
	}
	all := fleetOf(t, redistest.Background(redistest.Start(t).Addr), 8, &site{})
	for _, m := range all {
		m.Retain("big", trips)
	}
	together(t, all)
	var took []time.Duration
	for i, backend := range trips {
		failed := failures(all)
		begun := time.Now()
		all[i%8].calls(backend, 5, errBad)
		for !every(all, backend, Open) && waits(all, failed, begun) {
			time.Sleep(time.Millisecond)
		}
		switch {
		case every(all, backend, Open):
			took = append(took, time.Since(begun))
		case failures(all) == failed:
			t.Errorf("%s is not known to be open after %v", backend, time.Since(begun))
		}
	}
	slices.Sort(took)
	if len(took) < len(trips)*2/3 { // a round trip that the machine had no time for loses what it told
		t.Fatalf("only %d of %d were seen", len(took), len(trips))
	}
	t.Logf("seen by all: median %v, at most %v", took[len(took)/2], took[len(took)-1])
}

// waits reports whether what was told since begun, when so many round trips had failed, may
// still arrive: for 10 s, or for less if another has failed, and with it what it told.
func waits(all []*member, failed int, begun time.Time) bool {
	since := time.Since(begun)
	return since < 350*time.Millisecond+slack || since < 10*time.Second && failures(all) == failed
}

// failures counts the round trips that failed.
func failures(all []*member) (n int) {
	for _, m := range all {
		n += m.failures()
	}
	return n
}

func TestNothingOnARequestsWayGoesToRedis(t *testing.T) {
	m := join(t, redistest.Background(redistest.Start(t).Addr), "alone", &site{}) // and does not run
	m.Retain("big", members)
	for _, backend := range members {
		m.calls(backend, 100, nil)
		m.calls(backend, 10, errBad)
		m.Open("big", backend)
		m.Ramp("big", backend)
	}
	if n := m.cmds.count(); n != 0 {
		t.Errorf("%d commands", n)
	}
}

func TestAFrozenRedisHoldsNoRequestAndIsSharedAgainWhenItThaws(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := fleetOf(t, redistest.Background(s.Addr), 2, &site{})
	together(t, all)
	s.Freeze()
	var took []time.Duration
	calls := func(n int, err error) {
		for range n {
			begun := time.Now()
			all[0].calls("a", 1, err)
			took = append(took, time.Since(begun))
		}
	}
	calls(500, nil)
	alone := redistest.Within(t, 10*time.Second, "nobody has the fleet's word", func() bool { calls(1, nil); return !all[0].shares() })
	calls(1000, errBad)
	if !all[0].Open("big", "a") || all[1].Open("big", "a") {
		t.Error("the own breakers do not rule")
	}
	slices.Sort(took)
	usual := took[len(took)*99/100]
	t.Logf("alone after %v; 99%% of the calls took up to %v, the slowest %v", alone, usual, took[len(took)-1])
	if usual > deadline/2 {
		t.Errorf("99%% of the calls took up to %v", usual)
	}
	s.Thaw()
	redistest.Within(t, 10*time.Second, "shared again", func() bool { return all[0].shares() && all[1].shares() })
	if n := all[0].log.count("Redis"); n > 0 {
		t.Errorf("%d lines", n)
	}
}

package breaker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pooled is a Set without Redis whose pool big has n backends, "b0" and on.
func pooled(n int) (*member, []string) {
	m := &member{Set: set(Options{})}
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("b", i))
	}
	m.Retain("big", ids)
	return m, ids
}

func TestAPoolWhoseBackendsAllAnswerErrorsKeepsHalfOfThem(t *testing.T) {
	for n, want := range map[int]string{1: "[]", 2: "[b1]", 3: "[b2]", 4: "[b2 b3]", 5: "[b3 b4]"} {
		synctest.Test(t, func(t *testing.T) {
			m, ids := pooled(n)
			for i := range ids {
				m.calls(ids[n-1-i], 5, errBad) // the last first
				time.Sleep(time.Millisecond)
			}
			if got := fmt.Sprint(m.shut(ids)); got != want {
				t.Errorf("of %d backends %s are kept out, want %s", n, got, want)
			}
			for _, s := range m.States() {
				if s.State != Open {
					t.Errorf("%+v", s)
				}
			}
			if m.calls("b0", 3, errBad) != 3 {
				t.Error("who is kept in is refused")
			}
		})
	}
}

func TestWhatCannotBeReachedIsKeptOutAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ids := pooled(4)
		for _, id := range ids {
			m.calls(id, 5, errUnreachable)
		}
		if got := m.shut(ids); len(got) != 4 {
			t.Errorf("only %v", got)
		}
	})
}

func TestWhoOpenedFirstStaysOutAndAnotherTakesItsPlaceWhenItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := alone(t, func(backend string) error {
			if backend == "b2" {
				return nil
			}
			return errBad
		})
		ids := []string{"b0", "b1", "b2", "b3"}
		m.Retain("big", ids)
		for _, id := range []string{"b2", "b0", "b3", "b1"} {
			m.calls(id, 5, errBad)
			time.Sleep(time.Second)
		}
		for range 100 {
			if got := fmt.Sprint(m.shut(ids)); got != "[b0 b2]" {
				t.Fatalf("kept out are %s", got)
			}
			m.calls("b3", 1, errBad)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(12 * time.Second)
		if got := fmt.Sprint(m.shut(ids)); got != "[b0 b3]" {
			t.Errorf("kept out are %s", got)
		}
	})
}

func TestTheFloorHoldsInAFleetAndForWhatItCannotReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &site{}
		_, all := fleetOf(t, 3, w)
		for _, b := range members {
			w.set(b, errBad)
			all[0].calls(b, 5, errBad)
			time.Sleep(heard)
		}
		for range 100 {
			for i, m := range all {
				if got := fmt.Sprint(m.shut(members)); got != "[a b]" {
					t.Fatalf("replica %d keeps out %s", i, got)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, b := range members { // the engines are gone, and say nothing any more
			w.set(b, errUnreachable)
		}
		time.Sleep(38 * time.Second)
		for i, m := range all {
			if got := m.shut(members); len(got) != 4 || !m.Shut("big", "d") {
				t.Errorf("replica %d keeps out only %v", i, got)
			}
		}
	})
}

// TestNeverMoreThanHalfIsKeptOut looks on while calls of many goroutines fail.
func TestNeverMoreThanHalfIsKeptOut(t *testing.T) {
	m, ids := pooled(6)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for range 3000 {
				m.calls(ids[rng.IntN(len(ids))], 1, errBad)
			}
		})
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got := m.shut(ids); len(got) > 3 {
				t.Errorf("%v are kept out", got)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	watch.Wait()
	if got := m.shut(ids); len(got) != 3 {
		t.Errorf("%v are kept out at last", got)
	}
}

func TestWhoCouldNotBeReachedAndThenAnswersErrorsStaysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := alone(t, func(string) error { return errBad })
		m.calls("a", 5, errUnreachable)
		for range 60 { // its probe finds errors after 8 to 12 s
			time.Sleep(time.Second)
			if !m.Open("big", "a") {
				t.Fatalf("requests go there: %+v", m.States())
			}
		}
	})
}

func TestShutHoldsForAPoolThatTheFloorKeepsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ids := pooled(1)
		m.calls(ids[0], 5, errBad)
		if m.Open("big", ids[0]) || !m.Shut("big", ids[0]) {
			t.Errorf("open %v, shut %v", m.Open("big", ids[0]), m.Shut("big", ids[0]))
		}
		if m.calls(ids[0], 3, errBad); !m.Shut("big", ids[0]) {
			t.Error("not shut after more calls")
		}
	})
}

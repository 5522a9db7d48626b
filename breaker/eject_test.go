package breaker

import (
	"fmt"
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

// What answers errors is kept in up to one half of its pool, shut all the same; what cannot be reached is kept out.
func TestAPoolWhoseBackendsAllFailKeepsHalfOfThoseThatAnswer(t *testing.T) {
	for _, c := range []struct {
		n     int
		fault error
		want  string // kept out
	}{
		{1, errBad, "[]"}, {2, errBad, "[b1]"}, {3, errBad, "[b2]"}, {4, errBad, "[b2 b3]"}, {5, errBad, "[b3 b4]"},
		{4, errUnreachable, "[b0 b1 b2 b3]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, ids := pooled(c.n)
			for i := range ids {
				m.calls(ids[c.n-1-i], 5, c.fault) // the last first
				time.Sleep(time.Millisecond)
			}
			for range 2 {
				if got := fmt.Sprint(m.shut(ids)); got != c.want {
					t.Errorf("of %d backends %s are kept out, want %s", c.n, got, c.want)
				}
				for _, s := range m.States() {
					if s.State != Open || !m.Shut("big", s.Backend) {
						t.Errorf("%+v", s)
					}
				}
				if let := m.calls("b0", 3, c.fault); (let == 3) != (c.fault == errBad) {
					t.Errorf("%d calls are let through", let)
				}
			}
		})
	}
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

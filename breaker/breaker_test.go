package breaker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// tell lets n calls through, each with the outcome err.
func tell(t *testing.T, s *Set, n int, err error) {
	t.Helper()
	for i := range n {
		permit, refused := s.Allow("big", "a", "")
		if refused != nil {
			t.Fatalf("call %d of %d refused: %v", i+1, n, refused)
		}
		permit.Report(err)
	}
}

func wantOpen(t *testing.T, s *Set, want bool) {
	t.Helper()
	if got := s.Open("big", "a"); got != want {
		t.Fatalf("Open is %v, want %v; %+v", got, want, s.States())
	}
}

func TestFiveFaultsOpenForTheOpenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		tell(t, s, 4, errBad)
		wantOpen(t, s, false)
		tell(t, s, 1, errBad)
		wantOpen(t, s, true)

		_, err := s.Allow("big", "a", "")
		left := s.States()[0].Remaining
		if !errors.Is(err, ErrOpen) || left < 8*time.Second || left > 12*time.Second {
			t.Fatalf("%v, %v", err, left)
		}
		if want := "backend a (pool big), open for another"; !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
		time.Sleep(left - 1)
		wantOpen(t, s, true)
		time.Sleep(time.Nanosecond)
		wantOpen(t, s, false)
		tell(t, s, 4, errBad) // nothing is left of the old counts
		wantOpen(t, s, false)
	})
}

func TestHalfOfAtLeastFiveFinishedCallsOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		for range 100 { // under way, and not to be counted
			if _, err := s.Allow("big", "a", ""); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{nil, errBad, nil, errBad} {
			tell(t, s, 1, err)
			wantOpen(t, s, false) // four of them say nothing yet
		}
		tell(t, s, 1, errBad)
		wantOpen(t, s, true)
	})
}

func TestBackpressureAndClientsThatLeaveNeverOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		tell(t, s, 1000, errBusy)
		wantOpen(t, s, false)
		tell(t, s, 1000, fmt.Errorf("read: %w", context.Canceled))
		wantOpen(t, s, false)
		tell(t, s, 4, errBad)
		tell(t, s, 1000, errBusy) // nor do they wipe out faults
		tell(t, s, 1, errBad)
		wantOpen(t, s, true)
	})
}

func TestDoneCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		permit, err := s.Allow("big", "a", "")
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			permit.Report(errBad)
		}
		wantOpen(t, s, false)
	})
}

func TestFaultsOlderThanTheWindowAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		tell(t, s, 4, errBad)
		time.Sleep(11 * time.Second)
		tell(t, s, 4, errBad)
		wantOpen(t, s, false)
		tell(t, s, 1, errBad)
		wantOpen(t, s, true)
	})
}

func TestFaultOfACallLongerThanTheWindowStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		var permits []*Permit
		for range 5 {
			permit, err := s.Allow("big", "a", "")
			if err != nil {
				t.Fatal(err)
			}
			permits = append(permits, permit)
		}
		time.Sleep(30 * time.Second) // the header timeout of a hung backend
		for _, permit := range permits {
			permit.Report(errBad)
		}
		wantOpen(t, s, true)
	})
}

func TestOutcomeFromBeforeABreakerOpenedSaysNothingToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(Options{})
		var permits []*Permit
		for range 20 {
			permit, err := s.Allow("big", "a", "")
			if err != nil {
				t.Fatal(err)
			}
			permits = append(permits, permit)
		}
		tell(t, s, 5, errBad)
		time.Sleep(12 * time.Second)
		tell(t, s, 1, nil)
		for _, permit := range permits {
			permit.Report(errBad)
		}
		wantOpen(t, s, false)
	})
}

func TestChangedConfigTakesEffectWithTheNextBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{}
		s := set(Options{Config: func() Config { return cfg }})
		tell(t, s, 5, errBad)
		cfg = Config{Failures: 2, Open: time.Minute}
		time.Sleep(12 * time.Second)
		tell(t, s, 1, nil)
		tell(t, s, 2, errBad)
		wantOpen(t, s, true)
		time.Sleep(47 * time.Second)
		wantOpen(t, s, true)
		time.Sleep(26 * time.Second)
		wantOpen(t, s, false)
	})
}

func TestRetainForgetsTheOthersOfItsPoolAndTheirSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := set(Options{Registerer: reg})
	for _, k := range []Key{{Pool: "big", Backend: "a"}, {Pool: "big", Backend: "b"}, {Pool: "small", Backend: "b"}} {
		permit, err := s.Allow(k.Pool, k.Backend, "")
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Report(errBad) // one of a forgotten breaker harms nobody
	}
	s.Retain("big", []string{"a"})
	var got []string
	for _, st := range s.States() {
		got = append(got, st.Pool+"/"+st.Backend)
	}
	if want := "big/a small/b"; strings.Join(got, " ") != want {
		t.Errorf("kept %v, want %s", got, want)
	}
	if s.Open("big", "unheard of") || len(s.States()) != 2 {
		t.Error("asking created a breaker")
	}
}

func TestMetricsTellTheStateAndTransitionsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		var log bytes.Buffer
		s := set(Options{Registerer: reg, Logger: zerolog.New(&log)})
		tell(t, s, 2, errBusy)
		tell(t, s, 5, errBad)
		state := func(v int) {
			t.Helper()
			want := fmt.Sprintf(`
# HELP foregate_breaker_state State of the backend's breaker: 0 closed, 1 half-open, 2 open.
# TYPE foregate_breaker_state gauge
foregate_breaker_state{backend="a",pool="big"} %d
`, v)
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "foregate_breaker_state"); err != nil {
				t.Error(err)
			}
		}
		state(2)
		time.Sleep(12 * time.Second)
		state(0)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"to":"open"`) || !strings.Contains(lines[1], `"to":"closed"`) {
			t.Errorf("log:\n%s", log.String())
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
	})
}

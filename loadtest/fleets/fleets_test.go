package fleets

import (
	"errors"
	"testing"

	"github.com/foregate/foregate/loadtest/virtual"
)

func TestTheSearchFindsTheHighestLoadThatHolds(t *testing.T) {
	for _, c := range []struct{ begin, end float64 }{{10, 47}, {10, 9.5}, {100, 2}, {47, 47}} {
		tries := map[float64]int{}
		got, err := Highest(c.begin, precision, func(load float64) (bool, error) {
			tries[load]++
			return load <= c.end, nil
		})
		if err != nil || got > c.end || got < c.end/precision {
			t.Errorf("from %g on: %g, %v, want just below %g", c.begin, got, err, c.end)
		}
		for load, n := range tries {
			if n > 1 {
				t.Errorf("from %g on: %g was tried %d times", c.begin, load, n)
			}
		}
	}
	if got, err := Highest(10, precision, func(float64) (bool, error) { return false, nil }); got != 0 || err != nil {
		t.Errorf("nothing holds: %g, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := Highest(10, precision, func(float64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestEveryFleetOfTheGridHasItsOwnNameAndPrices(t *testing.T) {
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range Grid() {
		if seen[f.String()] {
			t.Errorf("%s is there twice", f)
		}
		seen[f.String()] = true
		rents, err := l.rents(f, 1000)
		for _, list := range l.prices {
			if usd := rents[list.Name]; usd <= 0 || err != nil {
				t.Errorf("%s: %g $ for a million tokens by %s, %v", f, usd, list.Name, err)
			}
		}
	}
}

// What a search measures at a load, with a fleet that is far from full: the draft's answers come, and are as good as the law says.
func TestAFleetServesTheShareOfDraftsThatItsLawSays(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	l, err := newLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, law := range laws {
		f := Fleet{Engines{"h100-70b-fp8-tp2", 2}, Engines{"h100-8b-fp8", 1}, Confidence, law}
		got, holds, err := l.measure(t.Context(), f, 10, 1, new(virtual.Earlier))
		if err != nil {
			t.Fatal(err)
		}
		if !holds || got.Acceptance < law.Acceptance-0.06 || got.Acceptance > law.Acceptance+0.06 {
			t.Errorf("%s: %+v", f, got)
		}
	}
}

package proof

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
)

func TestFiguresAreWrittenWithThreeDigitsAndTheirUnit(t *testing.T) {
	for want, got := range map[string]string{
		"1.79 $": dollars.Text(1.7939), "12,775 $": dollars.Text(12775), "98.0 %": share.Text(0.97951), "0.050 %": share.Text(0.0005),
		"467 ms": milliseconds.Text(467.2), "7.79 s": milliseconds.Text(7786.5), "5": plain.Text(5), "16.4": plain.Text(16.4), "× 0.514": times.Text(0.5137),
		"-3.20 s": seconds.Text(-3.2),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := spread([]float64{0.50, 0.52, 0.54})
	if got := times.Spread(s); got != "× 0.520 ± 0.020" {
		t.Errorf("%q", got)
	}
	if got := milliseconds.Spread(spread([]float64{7000, 7500})); got != "7.25 ± 0.35 s" {
		t.Errorf("%q", got)
	}
	if got := share.Spread(spread([]float64{0.98})); got != "98.0 %" {
		t.Errorf("one figure has no spread: %q", got)
	}
}

func TestASpreadLeavesOutWhatIsNoNumber(t *testing.T) {
	s := spread([]float64{1, math.NaN(), 3, math.Inf(1)})
	if want := (Spread{N: 2, Mean: 2, SD: math.Sqrt2, Min: 1, Max: 3}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s := spread(nil); s != (Spread{}) {
		t.Errorf("%+v", s)
	}
}

func TestAClaimHoldsIfTheMeanReachesItsGoal(t *testing.T) {
	pairs := []Pair{{Baseline: 10, Foregate: 4}, {Baseline: 10, Foregate: 6}}
	for _, c := range []struct {
		goal Goal
		want Verdict
	}{
		{ratioAtMost(0.5), Held}, {ratioAtMost(0.49), NotReached}, {ratioAtLeast(0.5), Held}, {ratioAtLeast(0.51), NotReached},
		{valueAtMost(5), Held}, {valueAtMost(4.9), NotReached}, {valueAtLeast(5), Held}, {valueAtLeast(5.1), NotReached}, {Goal{}, NoGoal},
	} {
		if got := (&Claim{Goal: c.goal}).verdict(pairs); got != c.want {
			t.Errorf("%+v: %s, want %s", c.goal, got, c.want)
		}
	}
	if got := (&Claim{Goal: valueAtMost(0)}).verdict([]Pair{{Baseline: 3}}); got != Held {
		t.Errorf("nothing beside three is %s", got)
	}
	if got := (&Claim{Goal: ratioAtMost(1)}).verdict([]Pair{{Foregate: 3}}); got != Unmeasured {
		t.Errorf("a ratio without a baseline is %s", got)
	}
	if got := (&Claim{Goal: valueAtMost(9)}).verdict(nil); got != Unmeasured {
		t.Errorf("no figures are %s", got)
	}
}

func TestTheSmallestFleetLosesNoMoreAndIsNoSlower(t *testing.T) {
	rows := map[string]loadtest.Row{
		"naive 5": {Errors: 10, TTFT99: 100}, "foregate 5": {TTFT99: 50}, "foregate 4": {Shed: 10, TTFT99: 100}, "foregate 3": {Shed: 11, TTFT99: 60}, "foregate 2": {TTFT99: 60},
	}
	if n := smallestFleet(rows, "naive 5", 5); n != 4 {
		t.Errorf("%d; three lose more, and what two do is chance then", n)
	}
	rows["foregate 5"] = loadtest.Row{TTFT99: 101}
	if n := smallestFleet(rows, "naive 5", 5); n != 5 {
		t.Errorf("%d, though even five are slower", n)
	}
}

func TestEveryClaimNamesRunsThatThereAreAndHasItsOwnID(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range Claims() {
		if ids[c.ID] || c.ID == "" || c.Text == "" || c.Source == nil {
			t.Errorf("%+v", c)
		}
		ids[c.ID] = true
		if s, rent := c.Source.(Rent); rent {
			for _, name := range []string{s.Alone, s.Fleet} {
				if !slices.ContainsFunc(fleets.Grid(), func(f fleets.Fleet) bool { return f.String() == name }) {
					t.Errorf("%s: there is no fleet %q", c.ID, name)
				}
			}
		}
	}
	o := Options{Claims: Claims(), Tables: true, Seeds: 2}
	plan, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range plan {
		key := r.scenario.Name + r.spec.Name + number(float64(r.seed))
		if seen[key] {
			t.Errorf("%s, %s, seed %d is run twice", r.scenario.Name, r.spec.Name, r.seed)
		}
		seen[key] = true
	}
	broken := Options{Claims: []Claim{{ID: "x", Source: Cases{Scenario: "smoke", Baseline: "none such"}}}, Seeds: 1}
	if _, err := broken.plan(); err == nil || !strings.Contains(err.Error(), `no case "none such"`) {
		t.Errorf("%v", err)
	}
}

func TestClaimsAreChosenByTheirIDs(t *testing.T) {
	got, err := Choose([]string{"cached", "cost-guard"}, false)
	if err != nil || len(got) != 2 || got[0].ID != "cached" || got[1].ID != "cost-guard" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Choose([]string{"cached", "nonesuch"}, false); err == nil || !strings.Contains(err.Error(), `"nonesuch"`) {
		t.Errorf("%v", err)
	}
	if _, err := Choose([]string{"overhead-miss"}, false); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("a claim that another command measures: %v", err)
	}
	if _, err := Choose([]string{"rent-guarantee"}, false); err == nil || !strings.Contains(err.Error(), "bin/loadtest fleets --only") {
		t.Errorf("a claim that a search measures: %v", err)
	}
	all, _ := Choose(nil, false)
	short, _ := Choose(nil, true)
	if len(short) == 0 || len(short) >= len(all) {
		t.Errorf("%d claims, %d in the short form", len(all), len(short))
	}
}

func TestACheckFindsAChangedDigitAndAWorseRatio(t *testing.T) {
	claims := []Claim{
		{ID: "computed", Source: Cases{}}, {ID: "live", Source: Cost{}}, {ID: "alone", Source: Fault{}}, {ID: "new", Source: Cases{}}, {ID: "absent", Source: Cases{}},
	}
	committed := &Results{
		Virtual: map[string][]Pair{"computed": {{1, 2}, {3, 4}}, "absent": {{1, 1}}},
		Live:    map[string][]Pair{"live": {{10, 10}, {10, 12}}, "alone": {{0, 1}, {0, 1.2}}},
	}
	same := &Results{
		Virtual: map[string][]Pair{"computed": {{1, 2}}}, // one seed
		Live:    map[string][]Pair{"live": {{10, 14}}, "alone": {{0, 1.4}}},
	}
	if got := same.Differences(committed, claims); len(got) > 0 {
		t.Errorf("%q", got)
	}
	other := &Results{
		Virtual: map[string][]Pair{"computed": {{1, 2}, {3, 4.0000001}}, "new": {{1, 1}}},
		Live:    map[string][]Pair{"live": {{10, 14.1}}, "alone": {{0, 1.5}}},
	}
	got := other.Differences(committed, claims)
	for _, want := range []string{"computed, seed 2", "live: ", "alone: ", "new: there is no committed figure"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%q", got)
	}
}

func TestWhatWasNotMeasuredStays(t *testing.T) {
	r := &Results{Virtual: map[string][]Pair{"a": {{1, 1}}}, Live: map[string][]Pair{}, Tables: map[string]map[string]tableCells{}}
	r.FillIn(&Results{Virtual: map[string][]Pair{"a": {{9, 9}}, "b": {{2, 2}}}, Live: map[string][]Pair{"c": {{3, 3}}}})
	if diff := cmp.Diff(&Results{Virtual: map[string][]Pair{"a": {{1, 1}}, "b": {{2, 2}}}, Live: map[string][]Pair{"c": {{3, 3}}}, Tables: map[string]map[string]tableCells{}}, r); diff != "" {
		t.Error(diff)
	}
}

// A run of the cheapest claims, and of a fault that is no fault.
func TestARunMeasuresWhatClaimsNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	claims, err := Choose([]string{"hit-latency", "dead-backend"}, false)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Claims: claims, Seeds: 2, Rounds: 2, Workers: 2, Say: func(string, ...any) {},
		Faults: func(_ context.Context, ids []string) (map[string]float64, error) {
			if !slices.Equal(ids, []string{"L1"}) {
				t.Errorf("rows %q", ids)
			}
			return map[string]float64{"L1": 0.5}, nil
		},
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	hits := figures(r.Virtual["hit-latency"])
	if hits.Ratio.N != 2 || hits.Ratio.Mean > 0.1 || len(r.Live["dead-backend"]) != 2 {
		t.Errorf("%+v", r)
	}
	failing := o
	failing.Faults = func(context.Context, []string) (map[string]float64, error) { return nil, errors.New("no Redis") }
	if _, err := Run(t.Context(), failing); err == nil {
		t.Error("no error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	o.Faults = nil
	if _, err := Run(ended, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

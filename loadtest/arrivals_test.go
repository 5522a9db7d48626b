package loadtest

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// starts returns all arrivals, in seconds.
func starts(t *testing.T, duration, arrivals string) []float64 {
	t.Helper()
	w := workload(t, fmt.Sprintf("duration: %s\narrivals: %s\nprompts: [{name: a, question: 5}]", duration, arrivals))
	var all []float64
	for i := 0; ; i++ {
		at, ok := w.Start(i)
		if !ok {
			if _, again := w.Start(i + 5); again {
				t.Error("after the end there is more")
			}
			if first, ok := w.Start(0); !ok || first.Seconds() != all[0] {
				t.Errorf("the first begins at %s when asked again, and at %vs before", first, all[0])
			}
			return all
		}
		all = append(all, at.Seconds())
	}
}

func TestEvenArrivalsAreEvenlySpaced(t *testing.T) {
	all := starts(t, "10s", "{rate: 5}")
	if len(all) != 50 || all[0] != 0 || all[49] != 9.8 {
		t.Errorf("%d from %v to %v", len(all), all[0], all[len(all)-1])
	}
}

func TestPoissonGapsHaveTheirMeanAndVariance(t *testing.T) {
	all := starts(t, "2000s", "{poisson: 10}")
	var sum, squares float64
	for i := 1; i < len(all); i++ {
		gap := all[i] - all[i-1]
		if gap < 0 {
			t.Fatalf("arrival %d is before the one before", i)
		}
		sum += gap
		squares += gap * gap
	}
	n := float64(len(all) - 1)
	mean := sum / n
	if variance := squares/n - mean*mean; math.Abs(mean-0.1) > 0.003 || math.Abs(variance-0.01) > 0.0006 {
		t.Errorf("%v arrivals, mean gap %v, variance %v; want 0.1 and 0.01", n, mean, variance)
	}
}

func TestADayIsQuietestAtFourAndBusiestAtSixteen(t *testing.T) {
	all := starts(t, "24h", "{day: {low: 0.1, high: 0.5}}")
	hours := make([]int, 24)
	for i, at := range all {
		if i > 0 && at < all[i-1] {
			t.Fatalf("arrival %d is before the one before", i)
		}
		hours[int(at/3600)]++
	}
	for hour, n := range hours {
		middle := float64(hour) + 0.5
		want := 3600 * (0.3 - 0.2*math.Cos(2*math.Pi*(middle-4)/24))
		if off := math.Abs(float64(n) - want); off > 4*math.Sqrt(want)+10 {
			t.Errorf("%d arrivals in hour %d, want about %.0f", n, hour, want)
		}
	}
}

func TestBurstsComeOnTopOfIndependentArrivals(t *testing.T) {
	all := starts(t, "300s", "{bursts: {per_second: 2, burst: 20, every: 30s}}")
	if !slices.IsSorted(all) {
		t.Fatal("not in order")
	}
	for at := 30.0; at < 300; at += 30 {
		n := 0
		for _, a := range all {
			if a == at {
				n++
			}
		}
		if n != 20 {
			t.Errorf("%d at %vs, want 20", n, at)
		}
	}
	if n := len(all) - 9*20; n < 500 || n > 700 {
		t.Errorf("%d outside of the bursts, want about 600", n)
	}
	if only := starts(t, "100s", "{bursts: {burst: 3, every: 30s}}"); !slices.Equal(only, []float64{30, 30, 30, 60, 60, 60, 90, 90, 90}) {
		t.Errorf("bursts alone: %v", only)
	}
}

func TestBurstsOfADayAreSmallWhereItIsQuiet(t *testing.T) {
	all := starts(t, "24h", "{day: {low: 0.01, high: 0.05, bursts: {burst: 50, every: 1h}}}")
	at := map[float64]int{}
	for _, a := range all {
		at[a/3600]++
	}
	if at[4] != 10 || at[16] != 50 || at[10] != 30 || at[0.5] != 0 {
		t.Errorf("%d at four, %d at ten, %d at sixteen; want 10, 30 and 50", at[4], at[10], at[16])
	}
}

func TestLoadMultipliesArrivals(t *testing.T) {
	one, two := starts(t, "100s", "{poisson: 10}"), starts(t, "100s\nload: 2", "{poisson: 10}")
	if two[0] != math.Floor(one[0]*0.5e9)/1e9 && math.Abs(two[0]-one[0]/2) > 1e-8 || len(two) < 19*len(one)/10-100 {
		t.Errorf("%d and %d arrivals, the first at %v and %v", len(one), len(two), one[0], two[0])
	}
	w := workload(t, "duration: 10s\nload: 1.5\narrivals: {closed: {users: 3}}\nprompts: [{name: a, question: 5}]")
	if w.Users() != 5 {
		t.Errorf("%d users, want 5", w.Users())
	}
	if d := w.FirstThink(2); d != 0 {
		t.Errorf("a user without pauses begins after %s", d)
	}
}

func TestARampBeginsWithTheScenariosLoadAndRisesEvenly(t *testing.T) {
	all := starts(t, "400s\nramp: {until: 200s}\nload: 3", "{bursts: {per_second: 10, burst: 20, every: 50s}}")
	if !slices.IsSorted(all) {
		t.Fatal("not in order")
	}
	quarters, bursts := [4]int{}, map[float64]int{}
	for i, at := range all {
		if i > 0 && at == all[i-1] {
			bursts[at]++
			continue
		}
		quarters[int(at/100)]++
	}
	for q, want := range [4]float64{1500, 2500, 3000, 3000} { // arrivals outside of bursts, by the mean load 1.5, 2.5, 3 and 3
		if n := float64(quarters[q]); math.Abs(n-want) > 4*math.Sqrt(want)+2 {
			t.Errorf("%v arrivals in quarter %d, want about %v", n, q+1, want)
		}
	}
	for at, want := range map[float64]int{50: 30, 100: 40, 150: 50, 200: 60, 350: 60} {
		if bursts[at]+1 != want {
			t.Errorf("%d at once after %v s, want %d", bursts[at]+1, at, want)
		}
	}
	later := starts(t, "100s\nramp: {from: 50s, until: 60s}\nload: 2", "{bursts: {burst: 10, every: 25s}}")
	if want := slices.Concat(slices.Repeat([]float64{25}, 10), slices.Repeat([]float64{50}, 10), slices.Repeat([]float64{75}, 20)); !slices.Equal(later, want) {
		t.Errorf("a ramp that begins later: %v", later)
	}
	if flat := starts(t, "40s\nramp: {until: 20s}", "{poisson: 10}"); !slices.Equal(flat, starts(t, "40s", "{poisson: 10}")) {
		t.Error("a load of 1 has nothing to rise to, and other arrivals than without a ramp")
	}
}

package soak

import (
	"math"
	"math/rand/v2"
	"testing"
)

// minutes are readings, one a minute, of a level that grows by so much an hour, with noise of a standard deviation.
func minutes(n int, level, growth, noise float64) (out []Point) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		at := float64(i) * 60
		out = append(out, Point{at, level + growth*at/hour + noise*random.NormFloat64()})
	}
	return out
}

func TestWhatGrowsIsFoundAndWhatVariesIsNot(t *testing.T) {
	jump := minutes(25, 100, 0, 2)
	for i := range jump[20:] {
		jump[20+i].Value += 50
	}
	for name, c := range map[string]struct {
		all  []Point
		held bool
	}{
		"the same":                           {minutes(25, 100, 0, 0), true},
		"noise":                              {minutes(25, 100, 0, 8), true},
		"a drift within the bound":           {minutes(25, 100, 20, 3), true},
		"a leak beyond the bound":            {minutes(25, 100, 120, 3), false},
		"a leak that only the slope shows":   {minutes(25, 100, 40, 2), false},
		"less and less":                      {minutes(25, 100, -120, 3), true},
		"a jump in the last third":           {jump, false},
		"a few readings, noise":              {minutes(5, 100, 0, 3), true},
		"a few readings, a leak":             {minutes(5, 100, 1200, 3), false},
		"a drift that is sure but too short": {minutes(10, 100, 60, 0.5), true},
		"too few to tell":                    {minutes(2, 100, 1e6, 0), true},
	} {
		if f := judge(c.all, Limit{0.1, 20}); f.Held != c.held || f.Samples != len(c.all) {
			t.Errorf("%s: held %v, want %v: %+v", name, f.Held, c.held, f)
		}
	}
}

func TestASlopeIsNotMovedByOutliers(t *testing.T) {
	all := minutes(20, 10, 60, 0)
	all[3].Value, all[17].Value = 1e6, -1e6
	middle, interval := slope(all)
	if math.Abs(middle-60) > 1e-6 || interval == nil || interval[0] > 60 || interval[1] < 60 {
		t.Errorf("a slope of %v in %v, want 60", middle, interval)
	}
	if _, interval := slope(minutes(4, 10, 60, 0)); interval != nil {
		t.Errorf("four readings have an interval: %v", *interval)
	}
	if middle, interval := slope(nil); middle != 0 || interval != nil {
		t.Errorf("nothing has a slope of %v in %v", middle, interval)
	}
}

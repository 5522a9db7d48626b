package soak

import (
	"math"
	"slices"
)

// Limit is how much a resource may grow: the larger of a share of what it was and an amount.
type Limit struct {
	Share  float64 `json:"share"`
	Amount float64 `json:"amount"` // in the resource's unit
}

// of is the largest growth from a level.
func (l Limit) of(level float64) float64 { return max(l.Share*level, l.Amount) }

// Point is a reading of a resource.
type Point struct{ At, Value float64 } // At in seconds

// Flat is what the readings of a resource say of its growth.
type Flat struct {
	Samples int     `json:"samples"` // after the warm-up
	First   float64 `json:"first"`   // median of the first third
	Last    float64 `json:"last"`    // median of the last third
	Growth  float64 `json:"growth"`  // Last − First
	Bound   float64 `json:"bound"`   // of Growth, and of the growth in twice the time that is certain
	Slope   float64 `json:"slope"`   // an hour: the median of the slopes between all pairs of readings (Theil and Sen)
	// Interval has the slope with a confidence of 95 % (Sen 1968, from Kendall's S); nil: there are too few readings.
	Interval *[2]float64 `json:"interval"`
	Held     bool        `json:"held"`
}

const (
	minSamples   = 3 // a third of the readings has one at least
	slopeSamples = 8 // from which on the interval decides
	horizon      = 2 // times the time of the readings, for which a slope is thought to go on
	hour         = 3600.0
	z95          = 1.96
)

// judge compares the last third of the readings with the first, and asks whether they rise. Growth beyond the bound is
// a leak, and so is a slope that would be beyond it in twice the time even at the low end of its interval: a median
// of the last third is about two thirds of the time behind that of the first, so this finds leaks of a third of the size,
// where they are steadier than the noise.
func judge(all []Point, l Limit) Flat {
	f := Flat{Samples: len(all), Held: true}
	if len(all) < minSamples {
		return f
	}
	third := len(all) / 3
	f.First, f.Last = median(values(all[:third])), median(values(all[len(all)-third:]))
	f.Growth, f.Bound = f.Last-f.First, l.of(f.First)
	f.Slope, f.Interval = slope(all)
	hours := horizon * (all[len(all)-1].At - all[0].At) / hour
	f.Held = f.Growth <= f.Bound && (f.Interval == nil || len(all) < slopeSamples || f.Interval[0]*hours <= f.Bound)
	return f
}

func values(all []Point) (out []float64) {
	for _, p := range all {
		out = append(out, p.Value)
	}
	return out
}

// median is the middle one of values in any order; 0 of none.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// slope is the growth in an hour by Theil and Sen, which outliers do not move, with Sen's interval of 95 %.
func slope(all []Point) (middle float64, interval *[2]float64) {
	var slopes []float64
	for i := range all {
		for j := range i {
			if dt := all[i].At - all[j].At; dt > 0 {
				slopes = append(slopes, (all[i].Value-all[j].Value)/dt*hour)
			}
		}
	}
	slices.Sort(slopes)
	n, pairs := float64(len(all)), float64(len(slopes))
	c := z95 * math.Sqrt(n*(n-1)*(2*n+5)/18)
	low, high := int(math.Floor((pairs-c)/2))-1, int(math.Ceil((pairs+c)/2))
	if low >= 0 && high < len(slopes) {
		interval = &[2]float64{slopes[low], slopes[high]}
	}
	return median(slopes), interval
}

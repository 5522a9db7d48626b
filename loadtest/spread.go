package loadtest

import (
	"math"
	"slices"
	"time"
)

// z95 is the 0.95 quantile of the standard normal law.
const z95 = 1.6448536269514722

// quantile returns the value below which a share u of all values lies, 0 < u < 1.
// A lognormal's values beyond a bound are at the bound.
func (s Spread) quantile(u float64) float64 {
	switch {
	case s.P50 > 0:
		sigma := math.Log(s.P95/s.P50) / z95
		v := max(s.P50*math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1)), s.Min)
		if s.Max > 0 {
			v = min(v, s.Max)
		}
		return v
	case s.Min != 0 || s.Max != 0:
		return s.Min + u*(s.Max-s.Min)
	}
	return s.Fixed
}

// count returns a value as a whole number of lo … hi.
func (s Spread) count(u float64, lo, hi int) int {
	return int(min(max(math.Round(s.quantile(u)), float64(lo)), float64(hi)))
}

// seconds returns a value as a time, at most a day.
func (s Spread) seconds(u float64) time.Duration {
	return time.Duration(min(s.quantile(u), maxSeconds) * float64(time.Second))
}

// draw is a place among hashes: what is drawn there depends on nothing but the
// numbers that lead to it.
type draw uint64

// of returns the place that parts lead to from here.
func (d draw) of(parts ...uint64) draw {
	x := uint64(d)
	for _, p := range parts { // the finish of SplitMix64 over each
		x = (x ^ p) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return draw(x)
}

// unit is uniform in (0, 1), both ends excluded.
func (d draw) unit() float64 { return (float64(d>>11) + 0.5) / (1 << 53) }

// odds are the cumulative shares of some choices, in their order.
type odds []float64

// byWeight gives each choice the share of its weight; all are alike when no
// weight is above zero.
func byWeight(weights []float64) odds {
	s, sum := make(odds, len(weights)), 0.0
	for i, w := range weights {
		sum += max(w, 0)
		s[i] = sum
	}
	for i := range s {
		if sum > 0 {
			s[i] /= sum
		} else {
			s[i] = float64(i+1) / float64(len(s))
		}
	}
	return s
}

// byRank gives n choices shares by Zipf's law: that of rank r is as 1/r^exponent.
func byRank(n int, exponent float64) odds {
	w := make([]float64, n)
	for i := range w {
		w[i] = math.Pow(float64(i+1), -exponent)
	}
	return byWeight(w)
}

// pick returns the choice at u, 0 < u < 1.
func (o odds) pick(u float64) int {
	i, exact := slices.BinarySearch(o, u)
	if exact {
		i++
	}
	for i < len(o)-1 && i > 0 && o[i] == o[i-1] { // without a share
		i++
	}
	return min(i, len(o)-1)
}

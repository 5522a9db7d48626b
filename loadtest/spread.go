package loadtest

import (
	"math"
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

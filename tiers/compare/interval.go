package compare

import "math"

// Alpha bounds the probability that the interval of one row ever misses, however often it is looked at.
const Alpha = 0.05

// Interval is a range with both ends.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// rateInterval is a confidence sequence for the probability of a good trial: those p at which the beta-binomial mixture,
// a martingale with the prior Beta(1, 1), is below 1/alpha (Robbins 1970; Howard et al. 2021).
func rateInterval(r Rate, alpha float64) Interval {
	if r.N <= 0 || r.Good < 0 || r.Good > r.N {
		return Interval{0, 1}
	}
	bad := r.N - r.Good
	mixture := lgamma(r.Good+1) + lgamma(bad+1) - lgamma(r.N+2)
	inside := func(p float64) bool {
		return mixture-xlogy(r.Good, p)-xlogy(bad, 1-p) < -math.Log(alpha)
	}
	mean := r.Good / r.N
	return Interval{boundary(mean, 0, inside), boundary(mean, 1, inside)}
}

// boundary is where inside ends between in, where it holds, and out.
func boundary(in, out float64, inside func(float64) bool) float64 {
	if inside(out) {
		return out
	}
	for range 60 { // halves, to the precision of a float64
		if middle := (in + out) / 2; inside(middle) {
			in = middle
		} else {
			out = middle
		}
	}
	return out
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// xlogy is x·log(y), and 0 where x is.
func xlogy(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

const (
	// tightAt is the number of values at which the interval of a mean is tightest.
	tightAt = 500
	// minMean is the number of values below which a mean has no interval. The sequence is asymptotic: with
	// exponential values looked at from 50 on, it missed in 6.8 % of 400 simulated runs.
	minMean = 200
)

// meanInterval is the asymptotic confidence sequence for a mean (Waudby-Smith et al. 2021, theorem 2.2). ok is false
// below [minMean] values.
func meanInterval(m Moments, alpha float64) (i Interval, ok bool) {
	if m.N < minMean {
		return Interval{}, false
	}
	l := -2 * math.Log(alpha)
	v := m.N * (l + math.Log(l+1)) / tightAt
	half := math.Sqrt(m.variance() * 2 * (v + 1) / (m.N * v) * math.Log(math.Sqrt(v+1)/alpha))
	return Interval{m.Mean() - half, m.Mean() + half}, true
}

// minus is the interval of a difference: a union bound over both sides.
func (i Interval) minus(o Interval) Interval { return Interval{i.Low - o.High, i.High - o.Low} }

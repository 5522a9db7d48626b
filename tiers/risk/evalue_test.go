package risk

import (
	"math"
	"math/rand/v2"
	"testing"
)

// seeded are random numbers that follow from a seed.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

var epsilons = []float64{.001, .02, .05, .1, .25, .34, .5}

// The mean over the binomial law of a fixed number of audits is exact arithmetic, no simulation.
func TestTheEvalueIsAFairBetAtEpsilonAndALosingOneAbove(t *testing.T) {
	for _, eps := range epsilons {
		for _, n := range []int{1, 2, 7, 40, 300} {
			for _, p := range []float64{eps, min(1.01*eps, 1), min(2*eps, 1), 1} {
				lower := mean(n, p, func(k int) float64 { return LogE(n, k, eps) })
				if lower > 1+1e-9 || p == eps && lower < 1-1e-9 {
					t.Errorf("ε %.3f, n %d, p %.4f: mean %.12f", eps, n, p, lower)
				}
			}
			for _, p := range []float64{eps, .99 * eps, eps / 2, 0} {
				upper := mean(n, p, func(k int) float64 { return LogUpperE(n, k, eps) })
				if upper > 1+1e-9 || p == eps && upper < 1-1e-9 {
					t.Errorf("upper, ε %.3f, n %d, p %.4f: mean %.12f", eps, n, p, upper)
				}
			}
		}
	}
}

// mean is E exp(of(K)), K ~ Bin(n, p).
func mean(n int, p float64, of func(k int) float64) float64 {
	sum := 0.0
	for k := range n + 1 {
		lp := lchoose(n, k)
		switch {
		case p == 0 && k > 0 || p == 1 && k < n:
			continue
		case p > 0 && p < 1:
			lp += float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
		}
		sum += math.Exp(lp + of(k))
	}
	return sum
}

func lchoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// An interval must hold at all moments at once, so each run is looked at after each audit.
func TestIntervalsHoldAtEveryMoment(t *testing.T) {
	const delta = .1
	for _, p := range []float64{0, .02, .05, .3, .97} {
		rng, missed, runs := seeded(3), 0, max(size(100, 2000), 50)
		for range runs {
			k := 0
			for n := 1; n <= 400; n++ {
				if rng.Float64() < p {
					k++
				}
				// p is inside exactly while neither bet against it has won.
				if p > 0 && (LogE(n, k, p) >= math.Log(2/delta) || LogUpperE(n, k, p) >= math.Log(2/delta)) {
					missed++
					break
				}
				if p == 0 {
					if low, _ := Interval(n, k, delta); low > 0 {
						missed++
						break
					}
				}
			}
		}
		slack := 0.0
		if !whole() {
			slack = 2.3 * math.Sqrt(delta/float64(runs))
		}
		if share := float64(missed) / float64(runs); share > delta+slack {
			t.Errorf("p %.2f: outside of its interval in %.3f of the runs, promised %.2f", p, share, delta)
		}
	}
}

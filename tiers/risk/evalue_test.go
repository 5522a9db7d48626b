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

// Booking an audit as bad must never help, and a laxer ε never hurt; what the intervals and the
// change of ε rely on.
func TestEvidenceFallsWithBadAuditsAndGrowsWithEpsilon(t *testing.T) {
	rng := seeded(1)
	for range 5000 {
		n := rng.IntN(3000) + 1
		k := rng.IntN(n + 1)
		eps := .001 + .49*rng.Float64()
		if k < n && LogE(n, k+1, eps) > LogE(n, k, eps) {
			t.Fatalf("n %d, k %d, ε %g: one more bad audit is better", n, k, eps)
		}
		if LogE(n, k, eps*1.01) < LogE(n, k, eps)-1e-9 {
			t.Fatalf("n %d, k %d, ε %g: evidence falls with ε", n, k, eps)
		}
		if LogUpperE(n, k, eps*1.01) > LogUpperE(n, k, eps)+1e-9 {
			t.Fatalf("n %d, k %d, ε %g: evidence of the opposite grows with ε", n, k, eps)
		}
	}
}

func TestTheEvalueIsWithinASeventhOfItsBestBet(t *testing.T) {
	for _, tc := range []struct{ n, k int }{{79, 0}, {400, 5}, {3000, 100}, {100000, 4800}} {
		best := math.Inf(-1)
		for _, share := range bets {
			best = max(best, logBet(tc.n, tc.k, share*.05, .05))
		}
		if e := LogE(tc.n, tc.k, .05); e > best || e < best-math.Log(7)-1e-9 {
			t.Errorf("%d of %d: %g, the best bet %g", tc.k, tc.n, e, best)
		}
	}
	if e := LogE(0, 0, .05); e != 0 {
		t.Errorf("of no audits: %g", e)
	}
	if e := LogE(1_000_000, 1_000_000, .001); math.IsNaN(e) || e > 0 {
		t.Errorf("of bad audits alone: %g", e)
	}
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

func TestIntervalsAreWhereNeitherBetHasWon(t *testing.T) {
	for _, tc := range []struct{ n, k int }{{1, 0}, {1, 1}, {20, 3}, {500, 0}, {500, 500}, {500, 20}, {100000, 5000}} {
		low, high := Interval(tc.n, tc.k, .05)
		seen := float64(tc.k) / float64(tc.n)
		if low < 0 || low > seen || high < seen || high > 1 {
			t.Errorf("%d of %d: %g … %g", tc.k, tc.n, low, high)
		}
		need := math.Log(40)
		if high < 1 && math.Abs(LogE(tc.n, tc.k, high)-need) > 1e-3 {
			t.Errorf("%d of %d: ln E at the upper end is %g", tc.k, tc.n, LogE(tc.n, tc.k, high))
		}
		if low > 0 && math.Abs(LogUpperE(tc.n, tc.k, low)-need) > 1e-3 {
			t.Errorf("%d of %d: ln E at the lower end is %g", tc.k, tc.n, LogUpperE(tc.n, tc.k, low))
		}
		if l, h := Interval(tc.n, tc.k, .01); l > low || h < high {
			t.Errorf("%d of %d: surer, yet narrower", tc.k, tc.n)
		}
	}
	if low, high := Interval(0, 0, .05); low != 0 || high != 1 {
		t.Errorf("of nothing: %g … %g", low, high)
	}
}

// How many audits certify, against the formula that people are told.
func TestNeededIsNearWhatIsNeeded(t *testing.T) {
	for _, tc := range []struct{ eps, share float64 }{{.05, 0}, {.05, .2}, {.05, .4}, {.1, .2}, {.1, .6}, {.02, .4}} {
		rng, runs := seeded(9), 201
		counts := make([]result, runs)
		for i := range counts {
			k := 0
			for n := 1; ; n++ {
				if rng.Float64() < tc.share*tc.eps {
					k++
				}
				if LogE(n, k, tc.eps) >= math.Log(20) {
					counts[i].audits = n
					break
				}
			}
		}
		median := float64(middle(counts, .5, func(o *result) int { return o.audits }))
		told := RequiredAudits(tc.share*tc.eps, tc.eps, .05)
		t.Logf("ε %.2f, R %.1f ε: %.0f audits, told %.0f: %.2f times", tc.eps, tc.share, median, told, median/told)
		if median < told*.75 || median > told*1.5 {
			t.Errorf("ε %.2f, R %.1f ε: %.0f audits, told %.0f", tc.eps, tc.share, median, told)
		}
	}
	if !math.IsInf(RequiredAudits(.05, .05, .05), 1) {
		t.Error("a risk of ε can be certified")
	}
}

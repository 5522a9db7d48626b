package risk

import (
	"math"
	"math/rand/v2"
	"testing"
)

// countsOf are strata with so many audits each at index 1, some of them bad.
func countsOf(pairs ...[2]int) *Strata {
	s := &Strata{Counts: make([]Counts, len(pairs))}
	for a, p := range pairs {
		c := &s.Counts[a]
		c.N[0], c.K[0], c.W[0], c.Audits = p[0], p[1], float64(p[0]), p[0]
		s.Names = append(s.Names, string(rune('a'+a)))
	}
	s.Names = s.Names[:len(pairs)-1]
	return s
}

// bound is the smallest eps that strata keep to at index 1.
func (s *Strata) bound(shares []float64, need float64) float64 {
	return edge(s.seen(1, shares), 1, func(eps float64) bool { return !s.keeps(1, shares, eps, need) })
}

func TestTheBoundOfAMixIsThatOfTheWorstRisksThatAreNotRefuted(t *testing.T) {
	const need = 7
	rng := rand.New(rand.NewPCG(1, 1))
	s := countsOf([2]int{300, 9}, [2]int{200, 30}, [2]int{80, 2})
	shares := []float64{.5, .3, .2}
	bound := s.bound(shares, need)
	best := 0.0
	for range 200_000 { // risks at random, kept if they are not refuted
		r := []float64{rng.Float64() * .2, rng.Float64() * .4, rng.Float64() * .4}
		e, sum := 0.0, 0.0
		for a := range r {
			e += logEWithin(s.Counts[a].N[0], s.Counts[a].K[0], r[a])
			sum += shares[a] * r[a]
		}
		if e < need {
			best = max(best, sum)
		}
	}
	t.Logf("the bound is %.4f, the worst of the risks at random %.4f", bound, best)
	if bound < best || bound > best+.01 {
		t.Errorf("the bound is %.4f, the worst of the risks at random %.4f", bound, best)
	}
}

func TestOneStratumIsBoundedAsByItsEValue(t *testing.T) {
	for _, c := range [][2]int{{100, 0}, {300, 12}, {2000, 150}, {50, 50}} {
		s := countsOf(c, [2]int{0, 0})
		want := edge(float64(c[1])/float64(c[0]), 1, func(eps float64) bool { return logEWithin(c[0], c[1], eps) < 7 })
		if got := s.bound([]float64{1, 0}, 7); math.Abs(got-want) > .002 {
			t.Errorf("%v: %.4f, want %.4f", c, got, want)
		}
	}
}

func TestABadAuditMoreNeverMakesTheBoundOfAMixSmaller(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 50 {
		pairs := make([][2]int, 3)
		for a := range pairs {
			pairs[a][0] = 1 + rng.IntN(400)
			pairs[a][1] = rng.IntN(pairs[a][0])
		}
		shares := []float64{rng.Float64(), rng.Float64(), rng.Float64()}
		sum := shares[0] + shares[1] + shares[2]
		for a := range shares {
			shares[a] /= sum
		}
		before := countsOf(pairs...).bound(shares, 8)
		pairs[rng.IntN(3)][1]++
		if after := countsOf(pairs...).bound(shares, 8); after < before-.002 {
			t.Fatalf("%v: %.4f, with one bad less %.4f", pairs, after, before)
		}
	}
}

func TestTheMeanOfEachEValueIsOneAtTheTrueRisk(t *testing.T) {
	for _, p := range []float64{.02, .1, .4} {
		mean := 0.0 // of 30 audits: sum over k of the binomial's weight times the e-value
		for k := range 31 {
			lp := lchoose(30, k) + float64(k)*math.Log(p) + float64(30-k)*math.Log1p(-p)
			mean += math.Exp(lp + logEWithin(30, k, p))
		}
		if math.Abs(mean-1) > 1e-9 {
			t.Errorf("risk %v: a mean of %v", p, mean)
		}
	}
}

func BenchmarkKeeps(b *testing.B) {
	s := countsOf([2]int{300, 9}, [2]int{200, 30}, [2]int{180, 2}, [2]int{100, 2}, [2]int{80, 2}, [2]int{80, 2})
	for b.Loop() {
		s.keeps(1, []float64{.2, .1, .2, .2, .2, .1}, .1, 7)
	}
}

package refit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
)

// TestNoWeightCanBeMovedForTheBetter checks the conditions of Karush, Kuhn and Tucker, which the
// minimum of a convex function within bounds meets and no other place does.
func TestNoWeightCanBeMovedForTheBetter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	for round := range 100 {
		l := law{bias: 4 * rng.NormFloat64(), common: rng.Float64()}
		for i := range l.weights {
			l.weights[i], l.spread[i] = 3*rng.NormFloat64(), math.Exp(3*rng.NormFloat64())
		}
		samples, _ := l.draw(rng, 500)
		if round%5 == 0 { // told apart without fault
			for i := range samples {
				samples[i].Good = samples[i].Features[1] > -2*l.spread[1]
			}
		}
		r := scaled(samples)
		w := r.solve()
		slope, _ := r.slopes(&w)
		for i, s := range slope {
			held := i < features && (w[i] == 0 && s >= 0 || w[i] == r.maxWeight[i] && s <= 0)
			if !held && math.Abs(s) > 1e-5 || i < features && (w[i] < 0 || w[i] > r.maxWeight[i]) {
				t.Fatalf("law %+v: term %d is %v and could be moved: slope %v", l, i, w[i], s)
			}
		}
	}
}

func TestAMapOfWhatWasFittedGivesTheSameOdds(t *testing.T) {
	samples, _ := known.draw(rand.New(rand.NewPCG(2, 6)), 3000)
	for i := range samples {
		samples[i].Features[accept.FeatureEntropy] = -0.7 // says nothing
	}
	r := scaled(samples)
	w, m := r.solve(), regress(samples)
	for i, s := range samples {
		if got, want := float64(m.Score(s.Features)), dot(&w, &r.rows[i].x); math.Abs(got-want) > 1e-9 {
			t.Fatalf("sample %d: the map says %v, the regression %v", i, got, want)
		}
	}
}

func TestTheSolutionDoesNotDependOnUnits(t *testing.T) {
	samples, _ := known.draw(rand.New(rand.NewPCG(3, 6)), 3000)
	a := regress(samples)
	for i := range samples {
		samples[i].Features[accept.FeatureWindow] *= 50
	}
	b := regress(samples)
	if got, want := 50*b.Weights[accept.FeatureWindow], a.Weights[accept.FeatureWindow]; math.Abs(got-want) > 1e-6 {
		t.Errorf("the weight of a feature in other units is %v, want %v", got, want)
	}
}

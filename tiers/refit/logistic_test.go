package refit

import (
	"math"
	"math/rand/v2"
	"testing"
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
		w := r.solve(vector{})
		slope, _ := r.slopes(&w)
		for i, s := range slope {
			held := i < features && (w[i] == 0 && s >= 0 || w[i] == r.most[i] && s <= 0)
			if !held && math.Abs(s) > 1e-5 || i < features && (w[i] < 0 || w[i] > r.most[i]) {
				t.Fatalf("law %+v: term %d is %v and could be moved: slope %v", l, i, w[i], s)
			}
		}
	}
}

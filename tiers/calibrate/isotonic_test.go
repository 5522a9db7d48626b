package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestAReliabilityCurveRisesAndHoldsEveryDraftOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for round := range 300 {
		n := 1 + rng.IntN(500)
		scores, good := make([]float64, n), make([]bool, n)
		for i := range scores {
			scores[i], good[i] = rng.NormFloat64(), rng.IntN(2) == 0
			if round%2 == 0 {
				scores[i] = math.Round(scores[i]) // ties
			}
		}
		total, goods, seen := 0, 0.0, 0.0
		last := Point{Score: math.Inf(-1), Good: -1}
		curve := isotonic(scores, good)
		for _, p := range curve {
			if p.Score <= last.Score || p.Good <= last.Good || p.N < 1 || !within(p.Expected, 0, 1) {
				t.Fatalf("%+v after %+v", p, last)
			}
			total, goods, last = total+p.N, goods+p.Good*float64(p.N), p
		}
		for _, g := range good {
			seen += float64(indexOf(g))
		}
		if total != n || math.Abs(goods-seen) > 1e-9 || len(curve) > maxPoints {
			t.Fatalf("%d points of %d drafts and %v good ones, want %d and %v", len(curve), total, goods, n, seen)
		}
	}
}

func TestAScoreThatIsRightIsSeenToBe(t *testing.T) {
	samples, odds := known.draw(rand.New(rand.NewPCG(2, 4)), 20_000)
	for _, p := range isotonic(odds, goodOf(samples)) {
		if hi := 5 * math.Sqrt(.25/float64(p.N)); math.Abs(p.Expected-p.Good) > hi {
			t.Errorf("%d drafts were expected to be good with %v, and were with %v", p.N, p.Expected, p.Good)
		}
	}
}

func TestAScoreThatIsTooSureOfItselfIsSeenToBe(t *testing.T) {
	samples, odds := known.draw(rand.New(rand.NewPCG(3, 4)), 20_000)
	for i := range odds {
		odds[i] *= 3
	}
	curve := isotonic(odds, goodOf(samples))
	if low := curve[0]; low.Expected > low.Good/2 {
		t.Errorf("the lowest %d were expected to be good with %v, and were with %v", low.N, low.Expected, low.Good)
	}
}

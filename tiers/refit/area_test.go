package refit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowArea compares every good score with every bad one.
func slowArea(scores []float64, good []bool) float64 {
	wins, pairs := 0.0, 0.0
	for i, a := range scores {
		for k, b := range scores {
			if !good[i] || good[k] {
				continue
			}
			pairs++
			switch {
			case a > b:
				wins++
			case a == b:
				wins += .5
			}
		}
	}
	return wins / pairs
}

func TestTheAreaIsTheShareOfPairsInTheRightOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 200 {
		n := 2 + rng.IntN(60)
		scores, good := make([]float64, n), make([]bool, n)
		for i := range scores {
			scores[i], good[i] = float64(rng.IntN(12)), rng.IntN(3) > 0 // many ties
		}
		good[0], good[1] = true, false
		got, want := AUROC(scores, good), slowArea(scores, good)
		if math.Abs(got.Value-want) > 1e-12 || !(got.Error >= 0 && got.Error <= 1) {
			t.Fatalf("%v %v: %v, by definition %v", scores, good, got, want)
		}
	}
}

func TestTheErrorOfAnAreaIsWhatItVariesBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	const rounds, n = 2000, 300
	var sum, squares, said float64
	scores, good := make([]float64, n), make([]bool, n)
	for range rounds {
		for i := range scores {
			good[i] = i%6 != 0
			scores[i] = rng.NormFloat64() + float64(indexOf(good[i]))
		}
		a := AUROC(scores, good)
		sum, squares, said = sum+a.Value, squares+a.Value*a.Value, said+a.Error
	}
	mean := sum / rounds
	varied, said := math.Sqrt(squares/rounds-mean*mean), said/rounds
	t.Logf("area %.4f varies by %.5f, said to by %.5f", mean, varied, said)
	// A deviation from 2,000 rounds has an error of 1.6 %.
	if math.Abs(said/varied-1) > 0.07 {
		t.Errorf("the area varies by %v and is said to by %v", varied, said)
	}
	// Two normals a deviation apart are told apart with Φ(1/√2).
	if want := 0.5 * math.Erfc(-0.5); math.Abs(mean-want) > 0.003 {
		t.Errorf("the area is %v on average, want %v", mean, want)
	}
}

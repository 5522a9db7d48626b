package refit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
)

// law is a logistic law that samples are drawn from: features are normal, those of a draft have
// a part in common, and their score of then is the least of two of them.
type law struct {
	bias    float64
	weights accept.Features
	spread  accept.Features // deviation of each feature
	common  float64         // share of the variance that all features have in common
}

// known has a feature that says nothing and one that says the opposite of what was hoped.
var known = law{
	bias: 3.2, weights: accept.Features{4, 1.5, 0.8, 0, -0.4, 0, 0},
	spread: accept.Features{0.2, 0.5, 0.4, 1.1, 0.6, 0.5, 0.7}, common: 0.3,
}

// draw draws n samples and says what the law's own odds of them are.
func (l *law) draw(rng *rand.Rand, n int) (samples []Sample, odds []float64) {
	for range n {
		z, common := l.bias, rng.NormFloat64()
		var s Sample
		for i := range s.Features {
			x := math.Sqrt(l.common)*common + math.Sqrt(1-l.common)*rng.NormFloat64()
			s.Features[i] = (x - 2) * l.spread[i]
			z += l.weights[i] * s.Features[i]
		}
		s.Score = min(s.Features[0]+0.4, s.Features[1]+1)
		s.Good = rng.Float64() < sigmoid(z)
		samples, odds = append(samples, s), append(odds, z)
	}
	return samples, odds
}

func goodOf(samples []Sample) (good []bool) {
	for _, s := range samples {
		good = append(good, s.Good)
	}
	return good
}

func mustFit(t *testing.T, samples []Sample) Fitted {
	t.Helper()
	f, err := FitScore(samples)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheWeightsOfAKnownLawAreFound(t *testing.T) {
	l := known
	l.weights[accept.FeatureLength] = 0
	samples, _ := l.draw(rand.New(rand.NewPCG(1, 1)), 50_000)
	f := mustFit(t, samples)
	t.Logf("bias %.3f of %.3f, weights %.3f of %.3f", f.Map.Bias, l.bias, f.Map.Weights, l.weights)
	for i, w := range f.Map.Weights {
		// Four standard errors of a weight at 50,000 samples and about 0.2 of variance each.
		if tolerance := 4 / (l.spread[i] * math.Sqrt(50_000*0.2*(1-l.common))); math.Abs(w-l.weights[i]) > tolerance {
			t.Errorf("the weight of %s is %v, want %v ± %v", accept.FeatureNames[i], w, l.weights[i], tolerance)
		}
	}
	if math.Abs(f.Map.Bias-l.bias) > 0.15 {
		t.Errorf("the bias is %v, want %v", f.Map.Bias, l.bias)
	}
}

func TestAFeatureThatSaysNothingOrTheOppositeHasNoWeight(t *testing.T) {
	samples, _ := known.draw(rand.New(rand.NewPCG(2, 1)), 50_000)
	f := mustFit(t, samples)
	if w := f.Map.Weights[accept.FeatureLength]; w != 0 {
		t.Errorf("what says the opposite has a weight of %v", w)
	}
	if w := f.Map.Weights[accept.FeatureWorst] * known.spread[accept.FeatureWorst]; w > 0.03 {
		t.Errorf("what says nothing moves the odds by %v a deviation", w)
	}
}

func TestTheFitComesNearTheOracleFrom2000LabelsAndAlmostFromTheFewest(t *testing.T) {
	l := known
	l.weights[accept.FeatureLength] = 0
	for round := range uint64(10) {
		seed, labels, off := round%5, 2000, .005
		if round >= 5 {
			labels, off = MinSamples, .015
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		samples, _ := l.draw(rng, labels)
		f := mustFit(t, samples)
		fresh, odds := l.draw(rng, 20_000)
		good, own := goodOf(fresh), make([]float64, len(fresh))
		for i, s := range fresh {
			own[i] = float64(f.Map.Score(s.Features))
		}
		oracle, fitted := AUROC(odds, good), AUROC(own, good)
		t.Logf("oracle %.4f, fitted %.4f, held out %.4f ± %.4f, before %.4f", oracle.Value, fitted.Value, f.After.Value, f.After.Error, f.Before.Value)
		if fitted.Value < oracle.Value-off {
			t.Errorf("the fit of %d labels has %v, the oracle %v", labels, fitted, oracle)
		}
		if math.Abs(f.After.Value-fitted.Value) > 4*f.After.Error {
			t.Errorf("held-out drafts say %v, fresh ones %v", f.After, fitted)
		}
		if f.Gain.Value <= 0 || math.Abs(f.Gain.Value-(f.After.Value-f.Before.Value)) > 1e-9 || f.Gain.Error >= f.After.Error+f.Before.Error {
			t.Errorf("gain %v from %v to %v", f.Gain, f.Before, f.After)
		}
	}
}

// TestGreedyAndSampledRequestsAreNotComparedWithEachOther has a law under which greedy drafts look better and are worse, as
// those of the simulator.
func TestGreedyAndSampledRequestsAreNotComparedWithEachOther(t *testing.T) {
	l := known
	l.weights[accept.FeatureLength] = 0
	rng := rand.New(rand.NewPCG(12, 12))
	draw := func(n int) (samples []Sample, odds []float64) {
		greedy := l
		greedy.bias -= 6
		samples, odds = l.draw(rng, n)
		more, moreOdds := greedy.draw(rng, n)
		for i := range more {
			more[i].Greedy = true
			for k := range more[i].Features {
				more[i].Features[k] += 1.5 * l.spread[k]
			}
			more[i].Score = min(more[i].Features[0]+0.4, more[i].Features[1]+1)
		}
		return append(samples, more...), append(odds, moreOdds...)
	}
	samples, _ := draw(5000)
	f := mustFit(t, samples)
	fresh, odds := draw(20_000)
	for kind := range 2 {
		var own, best []float64
		some := fresh[20_000*kind:][:20_000]
		for i, s := range some {
			own, best = append(own, float64(f.Map.Score(s.Features))), append(best, odds[20_000*kind+i])
		}
		oracle, fitted := AUROC(best, goodOf(some)), AUROC(own, goodOf(some))
		if fitted.Value < oracle.Value-0.005 {
			t.Errorf("kind %d: the fit has %v, the oracle %v", kind, fitted, oracle)
		}
		if math.Abs(f.After.Value-fitted.Value) > 0.05 {
			t.Errorf("kind %d: held-out drafts say %v, fresh ones %v", kind, f.After, fitted)
		}
	}
	for i := range samples {
		samples[i].Greedy = false
	}
	if mixed := mustFit(t, samples); mixed.After.Value > f.After.Value-0.02 {
		t.Errorf("mixed, the area is %v, apart %v", mixed.After, f.After)
	}
}

func TestDataThatAreToldApartWithoutFaultDoNotDiverge(t *testing.T) {
	samples, odds := known.draw(rand.New(rand.NewPCG(4, 4)), 3000)
	for i := range samples {
		samples[i].Good = samples[i].Features[accept.FeatureMean] > -0.5
		odds[i] = samples[i].Features[accept.FeatureMean]
	}
	f := mustFit(t, samples)
	if w := f.Map.Weights; slices.Max(w[:]) > maxWeight || slices.Min(w[:]) < 0 || math.Abs(f.Map.Bias) > 1e8 {
		t.Fatalf("%+v", f.Map)
	}
	if f.After.Value < 0.999 {
		t.Errorf("area %v", f.After)
	}
}

func TestTooFewLabelsAreNoFit(t *testing.T) {
	samples, _ := known.draw(rand.New(rand.NewPCG(9, 9)), 2*MinSamples)
	for name, c := range map[string]struct {
		n, bad int
		few    bool
	}{
		"none": {0, 0, true}, "one label short": {MinSamples - 1, 200, true}, "one bad one short": {MinSamples, MinPerLabel - 1, true},
		"one good one short": {MinSamples, MinSamples - MinPerLabel + 1, true}, "just enough": {MinSamples, MinPerLabel, false},
	} {
		some := slices.Clone(samples[:c.n])
		for i := range some {
			some[i].Good = i >= c.bad
		}
		_, err := FitScore(some)
		want := fmt.Sprintf("refit: %d good and %d bad labels, want 500 together and 50 of each", c.n-c.bad, c.bad)
		if c.few != (err != nil) || err != nil && err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

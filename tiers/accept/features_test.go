package accept

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var testMap = &ScoreMap{Version: 3, Bias: 6, Weights: Features{1.5, 2, 0.7, 1.1, 0.3, 0.5, 0.4}}

// step is one token of a draft as it was sampled.
type step struct {
	logprob float64
	top     []float64
}

// draftOf draws a draft of n tokens, a tenth of them doubtful and some without a logprob.
func draftOf(rng *rand.Rand, n int) []step {
	steps := make([]step, n)
	for i := range steps {
		lp := -rng.ExpFloat64() * 0.2
		switch rng.IntN(20) {
		case 0, 1:
			lp = -rng.ExpFloat64() * 3
		case 2:
			lp = math.NaN()
		}
		steps[i] = step{lp, []float64{lp, math.Log1p(-math.Exp(lp)) - 0.1}}
	}
	return steps
}

// slowFeatures computes the features of n tokens or more from their definition.
func slowFeatures(lps []float64) Features {
	f := Features{math.Inf(1), math.Inf(1), 0, math.Inf(1), -math.Log(float64(len(lps))), 0, 0}
	shrunk := func(lps []float64, missing, of int) float64 {
		sum := float64(missing) * priorMean
		for _, lp := range lps {
			sum += lp
		}
		return sum / float64(of)
	}
	for n := 1; n <= len(lps); n++ {
		f[FeatureWindow] = min(f[FeatureWindow], shrunk(lps[max(0, n-window):n], max(0, window-n), window))
		if n >= HeadTokens || n == len(lps) {
			f[FeatureMean] = min(f[FeatureMean], shrunk(lps[:n], priorTokens, n+priorTokens))
		}
		switch {
		case n >= worstTokens:
			f[FeatureWorst] = min(f[FeatureWorst], shrunk(lps[n-worstTokens:n], 0, worstTokens))
		case n == len(lps):
			f[FeatureWorst] = shrunk(lps, 0, n)
		}
	}
	head := lps[:min(len(lps), HeadTokens)]
	for _, lp := range head {
		f[FeatureEntropy] -= truncatedEntropy(lp, []float64{lp}) / float64(len(head))
	}
	doubt, surprise := 1.0, 1.0
	for _, lp := range lps {
		doubt += 1 - math.Exp(lp)
		surprise += min(max(-1-lp, 0), 4)
	}
	f[FeatureDoubt], f[FeatureSurprise] = -math.Log(doubt), -math.Log(surprise)
	return f
}

func TestAddingTokensGivesTheFeaturesOfTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 300 {
		lps := make([]float64, 1+round%100)
		for i := range lps {
			lps[i] = -rng.ExpFloat64() * 0.5
		}
		got, want := judged(testConfig, lps...).Features(), slowFeatures(lps)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Fatalf("%d tokens: %s is %v, by definition %v", len(lps), FeatureNames[i], got[i], want[i])
			}
		}
	}
}

func TestFeaturesAndTheScoreOfThemNeverRiseFromTheEighthTokenOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range 300 {
		cfg := Config{Threshold: 1, ScoreMap: testMap}
		if round%3 == 0 {
			cfg = testConfig
		}
		j := NewScoreTracker(cfg)
		last, score, crossed := Features{}, Nats(math.Inf(1)), false
		for n, s := range draftOf(rng, 150) {
			kept := j.Add(s.logprob, s.top)
			if n+1 < HeadTokens {
				continue
			}
			f, now := j.Features(), j.Score()
			for i := range f {
				if n+1 > HeadTokens && f[i] > last[i] {
					t.Fatalf("token %d: %s rose from %v to %v", n+1, FeatureNames[i], last[i], f[i])
				}
			}
			if now > score || (crossed && kept) {
				t.Fatalf("token %d: score %v after %v, kept %v, crossed before %v", n+1, now, score, kept, crossed)
			}
			last, score, crossed = f, now, crossed || !kept
		}
		if got, want := score, testMap.Score(last); cfg.ScoreMap != nil && got != want {
			t.Fatalf("the running minimum is %v, the map of the last features %v", got, want)
		}
	}
}

func TestAShortDraftIsScoredByTheMapOnceAtItsEnd(t *testing.T) {
	cfg := Config{Threshold: 3, ScoreMap: testMap}
	lps := []float64{-2, -2, -0.01, -0.01, -0.01}
	j := judged(cfg, lps...)
	if j.Rejected() {
		t.Fatal("rejected before the eighth token")
	}
	want := testMap.Score(slowFeatures(lps))
	v := j.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"})
	if v.Accept || v.Reason != ReasonScore || math.Abs(float64(v.Score-want)) > 1e-9 {
		t.Errorf("got %+v, want the score %v of its features, which is below 3", v, want)
	}
	if f := j.Features(); testMap.Score(f) != v.Score {
		t.Errorf("features %v after the end do not make the score %v", f, v.Score)
	}
}

func TestNoMapAndNoLogprobMakesAScoreThatIsNoNumber(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, m := range map[string]*ScoreMap{
		"no map":         nil,
		"a map":          testMap,
		"weight NaN":     {Weights: Features{nan}},
		"weight +Inf":    {Weights: Features{inf}},
		"weight −Inf":    {Weights: Features{-inf}},
		"bias NaN":       {Bias: nan},
		"bias +Inf":      {Bias: inf},
		"bias too large": {Bias: 1e300},
	} {
		for _, lp := range []float64{-0.1, nan, inf, -inf, 1e308, 5, -1e308} {
			j := NewScoreTracker(Config{Threshold: -1000, ScoreMap: m})
			for range 40 {
				j.Add(lp, []float64{lp, inf, -inf, nan, 800, -0.2})
			}
			for i, f := range j.Features() {
				if math.IsNaN(f) || math.IsInf(f, 0) {
					t.Errorf("%s, logprob %v: %s is %v", name, lp, FeatureNames[i], f)
				}
			}
			s := float64(j.Score())
			if math.IsNaN(s) || math.IsInf(s, 0) {
				t.Errorf("%s, logprob %v: score %v", name, lp, s)
			}
			if broken := m != nil && m != testMap; broken && j.EarlyVerdict().Accept {
				t.Errorf("%s: accepted at score %v", name, s)
			}
		}
	}
}

func TestALogprobAboveZeroIsMissing(t *testing.T) {
	j := judged(testConfig, slices.Concat(repeat(-0.01, 20), repeat(5, 4), repeat(0.001, 4))...)
	if j.missing != 4 {
		t.Errorf("%d logprobs are missing, want the 4 of 5 nats and not those that rounding lifted", j.missing)
	}
}

package accept

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var testConfig = Config{}

// judged runs a judge over logprobs whose alternatives are only themselves.
func judged(cfg Config, logprobs ...float64) *ScoreTracker {
	j := NewScoreTracker(cfg)
	for _, lp := range logprobs {
		j.Add(lp, []float64{lp})
	}
	return j
}

func repeat(lp float64, n int) []float64 { return slices.Repeat([]float64{lp}, n) }

func TestADoubtfulRunRejectsAtTheTokenThatCrosses(t *testing.T) {
	j := judged(testConfig, repeat(-0.05, 40)...)
	n := 0
	for j.Add(-3, []float64{-3, -0.1}) {
		if n++; n > window {
			t.Fatal("16 tokens of −3 nats did not cross a window offset of −1.1")
		}
	}
	// The window's mean falls by (3−0.05)/16 a token: −0.05−0.184·k < −1.1 at k = 6.
	if n != 5 {
		t.Errorf("crossed after %d doubtful tokens, want 5 before the crossing one", n)
	}
	if v := j.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"}); v.Accept || v.Reason != ReasonScore {
		t.Errorf("got %+v", v)
	}
	if got := j.SafePrefix(); got != 46-window {
		t.Errorf("safe prefix is %d tokens, want those before the worst window: %d", got, 46-window)
	}
}

// slowScore computes the score of a prefix from its definition.
func slowScore(lps []float64) float64 {
	minimum := math.Inf(1)
	for n := 1; n <= len(lps); n++ {
		if n < HeadTokens && n != len(lps) {
			continue
		}
		sum := 0.0
		for _, lp := range lps[:n] {
			sum += lp
		}
		mean := (sum + priorTokens*priorMean) / float64(n+priorTokens)
		minwin := math.Inf(1)
		for end := 1; end <= n; end++ {
			w := 0.0
			for i := end - window; i < end; i++ {
				if i < 0 {
					w += priorMean
				} else {
					w += lps[i]
				}
			}
			minwin = min(minwin, w/window)
		}
		head := 0.0
		for _, lp := range lps[:min(n, HeadTokens)] {
			head += truncatedEntropy(lp, []float64{lp})
		}
		head /= float64(min(n, HeadTokens))
		minimum = min(minimum, mean-float64(meanOffset), minwin-float64(windowOffset), float64(entropyOffset)-head)
	}
	return minimum
}

func TestAddingTokensGivesTheScoreOfTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		lps := make([]float64, 1+rng.IntN(80))
		for i := range lps {
			lps[i] = -rng.ExpFloat64() * 0.5
		}
		j := judged(testConfig, lps...)
		got := float64(j.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"}).Score)
		if want := slowScore(lps); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%d tokens: score %v, by definition %v", len(lps), got, want)
		}
	}
}

func TestEntropyOfAFairCoinIsLn2(t *testing.T) {
	half := math.Log(0.5)
	if h := truncatedEntropy(half, []float64{half, half}); math.Abs(h-math.Ln2) > 1e-9 {
		t.Errorf("got %v", h)
	}
	// One listed half, the rest unlisted: the rest counts as one more alternative.
	if h := truncatedEntropy(half, []float64{half}); math.Abs(h-math.Ln2) > 1e-9 {
		t.Errorf("got %v", h)
	}
	if h := truncatedEntropy(0, nil); h != 0 {
		t.Errorf("certainty has entropy %v", h)
	}
}

func TestMissingLogprobsEscalate(t *testing.T) {
	j := judged(testConfig, repeat(-0.01, 80)...)
	for range 8 {
		j.Add(NoLogprob, nil)
	}
	if v := j.EarlyVerdict(); !v.Accept {
		t.Errorf("9 %% missing: %+v", v)
	}
	for range 2 {
		j.Add(NoLogprob, nil)
	}
	if v := j.EarlyVerdict(); v.Accept || v.Reason != ReasonNoLogprobs {
		t.Errorf("11 %% missing: %+v", v)
	}
	if n := j.SafePrefix(); n != 0 {
		t.Errorf("%d tokens are called safe without having been judged", n)
	}
}

func TestARefusalFromOutsideIsFinal(t *testing.T) {
	j := judged(testConfig, repeat(-0.01, 30)...)
	j.Reject("not_plain_text")
	j.Reject("later")
	if v := j.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"}); v.Accept || v.Reason != "not_plain_text" || !j.Rejected() {
		t.Errorf("got %+v", v)
	}
}

func TestTheTokenThatEndsAnAnswerChangesNoScore(t *testing.T) {
	for n := range 40 {
		result, ended := NewScoreTracker(Config{}), NewScoreTracker(Config{})
		for range n {
			result.Add(-0.01, nil)
			ended.Add(-0.01, nil)
		}
		ended.AddEnd()
		want, got := result.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"}), ended.FinalVerdict(Draft{Text: []byte("x"), Finish: "stop"})
		if got != want || ended.Tokens() != n+1 || ended.SafePrefix() != result.SafePrefix() {
			t.Errorf("%d tokens and an end: %+v of %d, want %+v", n, got, ended.Tokens(), want)
		}
	}
}

package quality

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/refit"
)

// sample has a draft written to its end and asks the target about it.
func (j *Judge) sample(q *loadtest.Request, cfg accept.Config) refit.Sample {
	prompt := j.tok.Chat(messagesOf(q))
	judge := accept.NewScoreTracker(cfg)
	w := j.writer(j.draft, q, prompt)
	var ids []int32
	var top []float64
	for done := false; !done; {
		var id int32
		id, done = w.Next()
		ids, top = append(ids, id), w.Top(top[:0], maxTop)
		judge.Add(w.Logprob(), top)
	}
	judge.FinalVerdict(accept.Draft{})
	return refit.Sample{Features: judge.Features(), Score: float64(judge.Score()), Good: j.stands(q, prompt, ids)}
}

// kept is the largest share of drafts that a threshold keeps of which no more than risk are bad.
func kept(scores []float64, good []bool, risk float64) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	most, bad := 0, 0.0
	for n, i := range order {
		if !good[i] {
			bad++
		}
		if bad <= risk*float64(n+1) {
			most = n + 1
		}
	}
	return float64(most) / float64(len(scores))
}

// TestAFittedScoreTellsGoodDraftsFromBadBetterThanTheOneBefore fits to 3,000 drafts and tries the
// fit on 3,000 others.
func TestAFittedScoreTellsGoodDraftsFromBadBetterThanTheOneBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const n = 3000
	cfg := accept.Config{MeanOffset: -0.45, WindowOffset: -1.1, EntropyOffset: 1}
	cases := []struct{ divergence, blind, temperature, gain float64 }{
		{divergence: 0.3, gain: 0.05},
		{divergence: 0.1, gain: 0.05},
		{divergence: 0.3, temperature: 1, gain: 0.03}, // of the .13 that the plain score leaves
		{divergence: 0.3, blind: 0.3, gain: 0.02},
		{divergence: 1, gain: 0.02},
	}
	if raced {
		cases = cases[:1] // one goroutine: the detector only makes it ten times slower
	}
	for _, c := range cases {
		j := NewJudge(7, &loadtest.Case{
			Draft:  &loadtest.Pool{Model: "draft", Divergence: c.divergence, Blind: c.blind},
			Target: loadtest.Pool{Model: "target"},
		})
		samples := make([]refit.Sample, 2*n)
		for k := range samples {
			q := request(k, c.temperature, false)
			q.MaxTokens = 600
			samples[k] = j.sample(q, cfg)
		}
		f, err := refit.FitScore(samples[:n])
		if err != nil {
			t.Fatal(err)
		}
		var before, after []float64
		var good []bool
		for _, s := range samples[n:] {
			before, after, good = append(before, s.Score), append(after, float64(f.Map.Score(s.Features))), append(good, s.Good)
		}
		was, is := refit.AUROC(before, good), refit.AUROC(after, good)
		t.Logf("divergence %g, blind %g, temperature %g: %.0f %% bad; AUROC %.3f → %.3f ± %.3f (held out %.3f → %.3f, gain %.3f ± %.3f); kept at 10 %% bad: %.2f → %.2f; weights %.2f",
			c.divergence, c.blind, c.temperature, 100*float64(f.Bad)/n, was.Value, is.Value, is.Error,
			f.Before.Value, f.After.Value, f.Gain.Value, f.Gain.Error, kept(before, good, .1), kept(after, good, .1), f.Map.Weights)
		if is.Value < was.Value+c.gain {
			t.Errorf("%+v: the area is %v after %v", c, is, was)
		}
		if math.Abs(is.Value-f.After.Value) > 4*math.Hypot(is.Error, f.After.Error) {
			t.Errorf("%+v: held-out drafts say %v, fresh ones %v", c, f.After, is)
		}
	}
}

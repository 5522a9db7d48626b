package quality

import (
	"cmp"
	"slices"

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

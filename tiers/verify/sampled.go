package verify

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// ListedScores are the likeliest tokens at each position of a question. With an error only Backend is valid.
type ListedScores struct {
	Places   [][]accept.Token
	Backend  string // that was asked, and has all of them in its cache now; "" is none
	Computed int    // tokens that it computed for that
}

// ScoreListed has a target backend score ids for rejection sampling.
func (a Verifier) ScoreListed(ctx context.Context, q Question) (ListedScores, error) {
	var out ListedScores
	var err error
	out.Backend, err = a.Do(ctx, a.newScoreRequest(q, &engine.ScoreListed{Question: a.scoreQuestion(q, plan.SampledTop), Into: &out.Places}))
	if err != nil {
		return ListedScores{Backend: out.Backend}, err
	}
	out.Computed = len(q.Prompt) + len(q.IDs)
	return out, nil
}

// NewPositions returns the positions of a draft from the tokens that the draft pool listed (drawn is its sampling) and
// those that the target listed (wanted is the request's sampling). Both lists cover the same positions.
func NewPositions(drafted [][]accept.Token, drawn accept.Sampling, scored [][]accept.Token, requested accept.Sampling) []accept.Position {
	out := make([]accept.Position, min(len(drafted), len(scored)))
	for i := range out {
		out[i] = accept.NewPosition(accept.DraftDistribution(drafted[i], drawn), accept.TargetLowerBounds(scored[i], requested))
	}
	return out
}

// Draws has the target draw the next token behind ids so many times, as the request samples and without a seed: first where
// the question's prompt is warm, and once more elsewhere. It returns where that is warm for the next draws: "" once the
// backend has failed.
func (a Verifier) Draws(ctx context.Context, q Question, n int) (draws []engine.Draw, warm string, err error) {
	o := a.NewRequest(a.Target, &engine.Draws{
		Terms: a.Terms(a.Target), Request: a.Body, PromptIDs: q.Prompt, IDs: q.IDs, N: n, Into: &draws,
	})
	o.Demand = pool.Demand{
		PromptTokens: len(q.Prompt) + len(q.IDs), OutputTokens: 1, MaxOutput: 1, Answers: n, Whole: true,
		WarmBackend: q.Warm,
	}
	o.FirstByteTimeout = a.FirstByteTimeout(a.Config.Timeouts.TargetFirstToken)
	for range 2 {
		backend, failed := a.Do(ctx, o)
		if err = failed; err == nil {
			return draws, o.Demand.WarmBackend, nil
		}
		if backend == "" || ctx.Err() != nil {
			break
		}
		o.Demand.Exclude, o.Demand.WarmBackend = append(o.Demand.Exclude, backend), ""
	}
	return nil, o.Demand.WarmBackend, err
}

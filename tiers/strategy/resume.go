package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/transcript"
)

// resume carries on with an answer that whoever made it has lost, and that others than this
// request's client may have as far as said.
type resume struct {
	*Answer
	sent []byte
}

func (r *resume) run(ctx context.Context) error {
	r.setTier(plan.Target)
	r.setPlan(plan.Plan{Tier: plan.Target, Reason: reasonTargetLost})
	t := transcript.New(transcript.Options{Stop: r.Body.Stop, IncludeStop: r.Body.IncludeStop, Text: r.sent})
	c := &continuation{Answer: r.Answer, t: t, pool: r.Target, recount: true}
	// Where there is less than a word, or the target cannot carry on, any answer is as good.
	return c.afterText(ctx, func(text int) int { return openai.EstimateTokens(text) / 2 })
}

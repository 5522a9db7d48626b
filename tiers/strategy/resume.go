package strategy

import (
	"context"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// resume continues an answer whose replica or backend was lost. Other clients may already have the text in sent.
type resume struct {
	*Answer
	sent []byte
}

func (r *resume) run(ctx context.Context) error {
	r.setTier(plan.Target)
	r.setPlan(plan.Plan{Tier: plan.Target, Reason: reasonTargetLost})
	t := draft.NewTranscript(draft.TranscriptOptions{Stop: r.Body.Stop, IncludeStop: r.Body.IncludeStop, Text: r.sent})
	c := &continuation{Answer: r.Answer, t: t, pool: r.Target}
	// If sent is shorter than a word, or the target cannot continue it, a fresh answer is as good.
	return c.afterText(ctx, func(text int) int { return openai.EstimateTokens(text) / 2 })
}

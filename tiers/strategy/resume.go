package strategy

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/transcript"
	"github.com/foregate/foregate/tiers/verify"
)

// resume carries on with an answer that whoever made it has lost, and that others than this
// request's client may have as far as said.
type resume struct {
	*Answer
	said []byte
}

func (r *resume) run(ctx context.Context) error {
	r.from(plan.Target)
	r.planned(plan.Plan{Tier: plan.Target, Reason: ReasonTargetLost})
	t := transcript.New(transcript.Options{Stop: r.Body.Stop, IncludeStop: r.Body.IncludeStop, Text: r.said})
	c := &continuation{Answer: r.Answer, t: t, pool: r.Target, recount: true}
	err := c.behindText(ctx, func(text int) int { return openai.EstimateTokens(text) / 2 })
	if f, ok := errors.AsType[*engine.Failure](err); ok && !r.client.begun && f.Kind != engine.Gone && f.Kind != engine.Expired {
		return errNoDraft // this target cannot continue
	}
	return err // errNoDraft where there is less than a word: any answer is as good
}

// resumeRelayed carries on with a straight answer that broke off. The client has its frames as the
// backend wrote them, so the rest is written as that did.
func (s *relayed) resumeRelayed(ctx context.Context) error {
	t := transcript.New(transcript.Options{Stop: s.Body.Stop, IncludeStop: s.Body.IncludeStop, Text: s.text, Sent: len(s.text)})
	c := &continuation{
		Answer: s.Answer, t: t, pool: s.pool, counter: verify.Counter{Lost: []string{s.x.Backend()}}, waits: true, recount: true, prompt: s.out.Prompt,
	}
	id, created := openai.Named(s.named)
	s.client.framer = openai.NewFramerAs(s.Body.Kind, id, s.Route, created)
	s.Answer.count(0)
	return c.behindText(ctx, s.minTokens)
}

// behindText carries on behind what there is of an answer without ids: from its last whole word, and if
// that is then written differently, from where it ends. minTokens is how many tokens its first so many bytes
// have at least: what is taken for too many ends the answer early.
func (c *continuation) behindText(ctx context.Context, minTokens func(text int) int) error {
	c.t.RewindToWord()
	err := c.from(ctx, minTokens)
	if errors.Is(err, transcript.ErrMismatch) && ctx.Err() == nil {
		c.t.Undo()
		err = c.from(ctx, minTokens)
	}
	if errors.Is(err, transcript.ErrMismatch) {
		err = c.broken(err)
	}
	return err
}

// from carries on from where the text ends now.
func (c *continuation) from(ctx context.Context, minTokens func(text int) int) error {
	tokens, err := c.countTokens(ctx) // a frame may hold several tokens
	if err != nil {
		tokens = minTokens(c.t.Len())
	}
	at := c.t.End(tokens)
	c.tookOver(ReasonTargetLost, at.Tokens, at.Text)
	return c.run(ctx, at)
}

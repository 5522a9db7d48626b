package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// tools drafts an answer that may call tools. It requests the draft in one piece, because half a call is of no use,
// and serves it only if all parts are valid.
type tools struct {
	*answer
}

func (a *tools) run(ctx context.Context) error {
	d, whole, started := draft.New(a.DraftOptions()), &openai.DraftAnswer{}, a.World.Now()
	o := a.draftRequest(&engine.Answer{Draft: true, Terms: a.Terms(a.Draft), Request: a.Body, Into: whole})
	o.Demand.Whole, o.Ticket.NoWait = true, true
	o.FirstByteTimeout = a.Config.Timeouts.WholeAnswer(o.FirstByteTimeout, a.Body)
	if _, err := a.Do(ctx, o); err != nil {
		return a.withoutDraft(ctx, err)
	}
	d.TakeWhole(whole)
	v := d.End()
	if v.Reason == accept.ReasonDoubtful {
		var check *accept.Check
		if verdict, err := a.checkDraft(ctx, d); err == nil {
			check = &verdict.Check
		}
		d.Check(check)
		v = d.End()
	}
	a.recordDraft(d, started)
	a.DraftedTokens = d.Tokens()
	a.recordVerdict(v)
	if a.auditor != nil {
		a.auditor.Whole(whole)
	}
	switch {
	case ctx.Err() != nil:
		return a.interrupted(ctx, nil)
	case !v.Accept:
		a.wasted(d.Tokens())
		return errNext
	}
	a.Served = d
	return a.sendWhole(whole)
}

// sendWhole sends a draft that came in one piece, in the shape that the client asked for.
func (a *tools) sendWhole(d *openai.DraftAnswer) error {
	a.Tier, a.Finish = plan.Draft, d.Finish
	a.PromptTokens, a.AcceptedTokens = d.Usage.Prompt, d.Usage.Completion
	c, whole, extra := &a.client, d.Whole(a.Body.Kind), a.AppendExtra(nil)
	body := c.frames().Whole(nil, whole, extra)
	c.observer.Body(body)
	c.observer.End(openai.Ending{Usage: d.Usage})
	if a.Body.Stream {
		body = c.frames().WholeStream(body[:0], whole, extra, a.Body.IncludeUsage)
		return c.whole(body, 0)
	}
	return c.whole(body, len(body))
}

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

func (t *tools) run(ctx context.Context) error {
	d, whole, started := draft.New(t.DraftOptions()), &openai.DraftAnswer{}, t.World.Now()
	o := t.draftRequest(&engine.Answer{Draft: true, Terms: t.Terms(t.Draft), Request: t.Body, Into: whole})
	o.Demand.Whole, o.Ticket.NoWait = true, true
	o.FirstByteTimeout = t.Config.Timeouts.WholeAnswer(o.FirstByteTimeout, t.Body)
	if _, err := t.Dispatch.Do(ctx, o); err != nil {
		return t.withoutDraft(ctx, err)
	}
	d.TakeWhole(whole)
	v := d.End()
	if v.Reason == accept.ReasonDoubtful {
		t.checkDraft(ctx, d)
		v = d.End()
	}
	t.recordDraft(d, started)
	t.DraftedTokens = d.Tokens()
	t.recordVerdict(v)
	if t.auditor != nil {
		t.auditor.Whole(whole)
	}
	switch {
	case ctx.Err() != nil:
		return t.interrupted(ctx, nil)
	case !v.Accept:
		t.wasted(d.Tokens())
		return errNext
	}
	t.Served = d
	return t.sendWhole(whole)
}

// sendWhole sends a draft that came in one piece, in the shape that the client asked for.
func (t *tools) sendWhole(d *openai.DraftAnswer) error {
	t.Tier, t.Finish = plan.Draft, d.Finish
	t.PromptTokens, t.AcceptedTokens = d.Usage.Prompt, d.Usage.Completion
	c, whole, extra := &t.client, d.Whole(t.Body.Kind), t.AppendExtra(nil)
	body := c.frames().Whole(nil, whole, extra)
	c.observer.Body(body)
	c.observer.End(openai.Ending{Usage: d.Usage})
	if t.Body.Stream {
		body = c.frames().WholeStream(body[:0], whole, extra, t.Body.IncludeUsage)
		return c.whole(body, 0)
	}
	return c.whole(body, len(body))
}

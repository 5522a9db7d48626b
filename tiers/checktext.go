package tiers

import (
	"bytes"
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// scoredText has the target score the draft's text in tokens of its own (acceptance.md
// §3.3.6): exactness is then in the target's tokens, whatever the draft's are.
func (d *draft) scoredText(ctx context.Context, said *receipt.Checked) (*accept.Check, error) {
	j := d.job
	target := j.route.Target
	prompt, _, err := j.tokenized(ctx, j.aside(target, openai.TokenizePath, j.ask.Request.TokenizePrompt(target.Model())))
	if err != nil {
		return nil, err
	}
	ids, _, err := j.tokenized(ctx, j.aside(target, openai.TokenizePath, openai.TokenizeText(target.Model(), d.said())))
	if err != nil {
		return nil, err
	}
	own := len(ids)
	if card := j.cascade.cards(target.Name()); d.ended() && card != nil && len(card.EOS) > 0 {
		ids = append(ids, card.EOS[0]) // that it ends here is a choice, too
	}
	said.Tokens = len(ids)
	span, err := j.scored(ctx, prompt, ids, said)
	if err != nil {
		return nil, err
	}
	c := j.rule(opinions(span))
	d.warm = said.Backend
	kept := d.within(c, len(ids), own)
	if c.Pass {
		return c, nil
	}
	c.Kept = 0
	if text, err := j.detokenized(ctx, target, ids[:kept]); err == nil && kept > 0 && bytes.HasPrefix(d.reply.text, text) && d.course.Resumes {
		d.own = &resumption{prompt: prompt, ids: ids[:kept], text: len(text)}
	}
	return c, nil
}

// said is the draft's text with the stop string that ended it, which the target must choose, too.
func (d *draft) said() []byte {
	if d.reply.stop == nil || d.reply.includeStop {
		return d.reply.text
	}
	return append(bytes.Clone(d.reply.text), d.reply.word...)
}

// within holds the target's word against the client's limit, which counts the target's tokens
// in mode verify: scored of them with the one that ends the answer, own without. It returns
// how many the target may carry on from.
func (d *draft) within(c *accept.Check, scored, own int) int {
	limit := d.job.ask.Request.Limit()
	if d.job.receipt.Plan.Mode == plan.ModeVerify && limit > 0 && c.Pass && (scored > limit || d.finish == "length" && scored < limit) {
		c.Pass, c.Reason = false, accept.ReasonDisagrees
	}
	if limit > 0 && c.Kept > limit {
		return min(limit, own)
	}
	// The last token that stands may end where it does only because the draft's text was cut
	// there: it counts where another that stands follows it.
	return min(max(c.Kept-1, 0), own)
}

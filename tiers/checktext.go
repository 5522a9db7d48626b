package tiers

import (
	"bytes"
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// scoredText has the target score the draft's text in tokens of its own (acceptance.md
// §3.3.6): exactness is then in the target's tokens, whatever the draft's are.
func (d *draft) scoredText(ctx context.Context, said *Checked) (*accept.Check, error) {
	j := d.job
	target := j.route.Target
	prompt, err := j.tokenized(ctx, target, j.ask.Request.TokenizePrompt(target.Model()))
	if err != nil {
		return nil, err
	}
	ids, err := j.tokenized(ctx, target, openai.TokenizeText(target.Model(), d.reply.text))
	if err != nil {
		return nil, err
	}
	own := len(ids)
	if card := j.cascade.cards(target.Name()); d.finish == "stop" && d.reply.stop == nil && card != nil && len(card.EOS) > 0 {
		ids = append(ids, card.EOS[0]) // that it ends here is a choice, too
	}
	said.Tokens = len(ids)
	span, err := j.scored(ctx, prompt, ids, said)
	if err != nil {
		return nil, err
	}
	c := j.rule(opinions(span))
	d.warm = said.Backend
	if c.Pass {
		return c, nil
	}
	// The last token that stands may end where it does only because the draft's text was cut
	// there: it counts where another that stands follows it.
	kept := min(max(c.Kept-1, 0), own)
	c.Kept = 0
	if text, err := j.detokenized(ctx, target, ids[:kept]); err == nil && kept > 0 && bytes.HasPrefix(d.reply.text, text) && d.course.Resumes {
		d.own = &resumption{prompt: prompt, ids: ids[:kept], text: len(text)}
	}
	return c, nil
}

package inflight

import (
	"bytes"
	"context"
)

// byText has the target score the draft's text in its own tokens. The check is then exact in the target's tokens,
// whatever the draft's are.
func (a Verifier) byText(ctx context.Context, d Draft, r *Result) error {
	prompt, err := TokenizePrompt(ctx, a.Caller, a.Target)
	if err != nil {
		return err
	}
	ids, err := TokenizeText(ctx, a.Caller, a.Target, d.textWithStop())
	if err != nil {
		return err
	}
	own := len(ids)
	if end := a.endIDs(); d.Ended && end != nil {
		ids = append(ids, end[0]) // that it ends here is a choice, too
	}
	r.Tokens = len(ids)
	s, err := a.Score(ctx, Question{Prompt: prompt, IDs: ids})
	r.Backend, r.Computed = s.Backend, s.Computed
	if err != nil {
		return err
	}
	r.Warm = s.Backend
	text := span{limit: a.Body.Limit(), scored: len(ids), own: own, atLimit: d.AtLimit}
	var kept int
	if r.Check, kept = a.Rule.checkText(s.Choices, text); r.Pass {
		return nil
	}
	if kept == 0 || !d.Resumes {
		return nil
	}
	part, err := Detokenize(ctx, a.Caller, a.Target, ids[:kept])
	if err == nil && bytes.HasPrefix(d.Text, part) {
		r.Part = &Part{PromptIDs: prompt, IDs: ids[:kept], Text: len(part)}
	}
	return nil // without it the draft is refused all the same
}

// textWithStop returns the draft's text with the stop string that ended it, because the target must choose that, too.
func (d *Draft) textWithStop() []byte {
	if len(d.StopWord) == 0 {
		return d.Text
	}
	return append(bytes.Clone(d.Text), d.StopWord...)
}

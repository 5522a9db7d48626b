package verify

import "github.com/foregate/foregate/tiers/accept"

// scoredDraft is what the target said of a draft's tokens, so that other rules can be applied to it, too.
type scoredDraft struct {
	choices []accept.Choice
	ids     int   // tokens of a draft that was scored by its own ids
	text    *span // of a draft that was scored by its text; nil for others
}

// CheckBy applies another rule to the scores that the result was made from. It returns false if there are none: the check
// failed, or was made by a judge.
func (r *Result) CheckBy(rule Rule) (accept.Check, bool) {
	if len(r.scored.choices) == 0 {
		return accept.Check{}, false
	}
	return r.scored.check(rule), true
}

// check applies a rule.
func (s scoredDraft) check(rule Rule) accept.Check {
	if s.text != nil {
		c, _ := s.checkText(rule)
		return c
	}
	c := rule.Check(s.choices)
	c.Kept = min(c.Kept, s.ids)
	return c
}

// checkText applies a rule to a draft that was scored by its text. Of a rejected one no token of the draft's own is kept,
// but the target may continue after so many of its tokens.
func (s scoredDraft) checkText(rule Rule) (c accept.Check, continues int) {
	c = rule.Check(s.choices)
	continues = rule.limitTo(&c, *s.text)
	if !c.Pass {
		c.Kept = 0
	}
	return c, continues
}

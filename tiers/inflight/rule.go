package inflight

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
)

// Rule says how the target's scores of a draft are judged.
type Rule struct {
	Exact    bool            // every token is what the target would have chosen
	Leniency accept.Leniency // else
}

// RuleOf returns a rule for answers at a temperature.
func RuleOf(r plan.VerifyRule, temperature float64) Rule {
	return Rule{Exact: r == plan.RuleExact, Leniency: accept.LeniencyAt(temperature)}
}

// Check judges the target's scores of a draft's tokens.
func (r Rule) Check(choices []accept.Choice) accept.Check {
	opinions := make([]accept.TargetScore, len(choices))
	for i := range choices {
		opinions[i] = choices[i].TargetScore
	}
	if r.Exact {
		return accept.CheckGreedy(opinions)
	}
	return r.Leniency.Check(opinions)
}

// checkText judges the target's scores of a draft that was scored by its text. Of a rejected one no token of the draft's own
// is kept, but the target may continue after so many of its tokens.
func (r Rule) checkText(choices []accept.Choice, text span) (c accept.Check, continues int) {
	c = r.Check(choices)
	continues = r.limitTo(&c, text)
	if !c.Pass {
		c.Kept = 0
	}
	return c, continues
}

// span is a draft in the target's own tokens.
type span struct {
	limit   int  // the client's; 0 is none
	scored  int  // tokens, with the one that ends the answer
	own     int  // without
	atLimit bool // the draft was ended by the limit
}

// limitTo applies max_tokens, which counts the target's tokens if the rule is exact. It returns how many tokens the
// target may continue.
func (r Rule) limitTo(c *accept.Check, s span) int {
	if r.Exact && s.limit > 0 && c.Pass && (s.scored > s.limit || s.atLimit && s.scored < s.limit) {
		c.Pass, c.Reason = false, accept.ReasonTargetDisagrees
	}
	if s.limit > 0 && c.Kept > s.limit {
		return min(s.limit, s.own)
	}
	// The last token that stands may end where it does only because the draft's text was cut
	// there: it counts where another that stands follows it.
	return min(max(c.Kept-1, 0), s.own)
}

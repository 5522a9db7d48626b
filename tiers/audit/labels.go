package audit

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/verify"
)

// lenient are the labels of mode lenient, by strictness.
var lenient = map[risk.Label]accept.Strictness{
	risk.LabelHigh: accept.StrictHigh, risk.LabelBalanced: accept.StrictBalanced, risk.LabelLoose: accept.StrictLoose,
}

// labelsOf returns what each label says of a draft of so many token ids, by one check of it. The target's scores are enough
// for all labels but the judge's, which says nothing of the others.
func labelsOf(r *verify.Result, cfg *plan.Config, temperature float64, ids int) (l risk.Labels) {
	if r.Scorer == plan.ScorerJudge {
		l.Set(risk.LabelJudge, r.Pass)
		return l
	}
	exact, known := r.CheckBy(verify.Rule{Exact: true, Tie: cfg.TieTolerance})
	if !known {
		return l
	}
	l.Set(risk.LabelExact, exact.Pass)
	l.Set(risk.LabelPrefix, exact.Pass || keepsPrefix(exact, &cfg.Risk, ids))
	l.PrefixShare = 1
	if !exact.Pass {
		l.PrefixShare = min(float64(exact.Kept)/float64(max(ids, 1)), 1)
	}
	for label, strictness := range lenient {
		c, _ := r.CheckBy(verify.Rule{Leniency: strictness.Leniency(temperature)})
		l.Set(label, c.Pass)
	}
	return l
}

// isGood reports whether the label in force calls the draft good, by a check with its rule.
func (d *Draft) isGood(r *verify.Result) bool {
	return IsGood(r, &d.Config.Risk, len(d.Transcript().IDs()))
}

// IsGood reports whether the label in force calls an answer of so many token ids good, by a check with its rule.
func IsGood(r *verify.Result, cfg *plan.Risk, ids int) bool {
	return r.Pass || cfg.Label == plan.LabelPrefix && keepsPrefix(r.Check, cfg, ids)
}

// keepsPrefix reports whether a rejected draft has enough of the target's first choices for the label greedy_prefix.
func keepsPrefix(exact accept.Check, cfg *plan.Risk, ids int) bool {
	return float64(exact.Kept) >= cfg.MinPrefixShare*float64(max(ids, 1))
}

// askJudge asks the judge once, if that was drawn, after the label in force is known. Without an answer the judge's label
// stays unknown. It does not change the outcome.
func (b *auditRun) askJudge(ctx context.Context) {
	if !b.AskJudge || b.labels.Of(risk.LabelJudge) != risk.OutcomeUnknown {
		return
	}
	asker := b.newVerifier()
	asker.Scorer, asker.Admission = plan.ScorerJudge, b.Body.PromptTokens+plan.TypicalOutput
	r, err := asker.Verify(ctx, verify.NewDraft(b.Audit.Draft))
	if b.cost.Scored += r.Computed; err == nil {
		b.labels.Set(risk.LabelJudge, r.Pass)
	}
}

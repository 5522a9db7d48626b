package audit

import (
	"context"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/verify"
)

// labelsOf returns what each label says of a draft, by one check of it. The target's scores tell exact and lenient;
// the judge's answer tells its own label only.
func labelsOf(r *verify.Result, cfg *plan.Config, temperature float64) (l risk.Labels) {
	if r.Scorer == plan.ScorerJudge {
		l.Set(risk.LabelJudge, r.Pass)
		return l
	}
	exact, known := r.CheckBy(verify.Rule{Exact: true, Tie: cfg.TieTolerance})
	if !known {
		return l
	}
	l.Set(risk.LabelExact, exact.Pass)
	lenient, _ := r.CheckBy(verify.Rule{Leniency: accept.LeniencyAt(temperature)})
	l.Set(risk.LabelLenient, lenient.Pass)
	return l
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

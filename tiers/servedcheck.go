package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/plan"
)

// The results of a check of a served draft, for metrics.
const (
	checkPassed  = "passed"
	checkFailed  = "failed"
	checkSkipped = "skipped" // no capacity, no budget, or the target did not answer
)

// Check asks the target in the background about a draft that was served on its score, by the rule of the label, in one
// prefill. onLabel is called with its answer. spare says that the target has spare capacity; without it the
// check is made only within the audit budget, and charged to it.
//
// The draft was chosen by its score, so the outcome is not stored as evidence.
func (ad *auditor) Check(served *draft.Draft, spare bool) {
	d := ad.draft(&draft.Audit{Draft: served})
	result := checkSkipped
	counted := func() {
		if ad.metrics.served.WithLabelValues(ad.Body.Model, result).Inc(); result == checkSkipped && ad.onSkip != nil {
			ad.onSkip()
		}
	}
	if d.Decision.Auditor == plan.ScorerNone || !ad.audits.MayAudit(ad.Body.Model, &ad.Config.Risk, spare) {
		counted()
		return
	}
	started := d.start(func(ctx context.Context) {
		defer counted()
		defer func() { d.settle(spare) }()
		if !d.enter(ctx) {
			return
		}
		defer d.leave()
		good, err := d.verify(ctx, nil, nil) // once: what the target has no capacity for is not worth a wait
		if err != nil {
			return
		}
		if result = checkFailed; good {
			result = checkPassed
		}
		if d.onLabel != nil {
			d.onLabel(good)
		}
	})
	if !started {
		counted()
	}
}

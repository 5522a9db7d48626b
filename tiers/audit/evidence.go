package audit

import (
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// entry is an audited draft as evidence for one key.
type entry struct {
	risk.Decision
	score  float64 // compared with the key's thresholds
	ticket string  // id of the audit once it is open
	warmup bool    // it counts for the warm-up only, not for a threshold
}

// needsScoreOnly reports whether the score only helps to place the grid, so that the target is not asked.
func (e entry) needsScoreOnly() bool { return !e.warmup && e.Version == 0 }

// counts reports whether the target's label is evidence.
func (e entry) counts() bool { return e.warmup || e.Version != 0 && e.score >= e.Floor }

// entriesOf returns the entries of a draft by its score, in the order in which they are opened.
func entriesOf(t *plan.AuditDecision, score float64) (entries []entry) {
	if t.Own.Audited {
		entries = append(entries, entry{Decision: t.Own, score: score})
	}
	if t.Warmup && score >= t.Cautious {
		entries = append(entries, entry{Decision: t.Own, score: score, warmup: true})
	}
	return entries
}

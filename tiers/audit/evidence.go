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

// entriesOf returns the entries of a draft by its own score, in the order in which they are opened.
func entriesOf(t *plan.AuditDecision, score float64) (entries []entry) {
	for _, d := range t.Decisions() {
		if d.Key.Cohort != plan.CohortHead {
			entries = append(entries, entry{Decision: d, score: score})
		}
	}
	if t.Warmup && score >= t.Cautious {
		entries = append(entries, entry{Decision: t.Own, score: score, warmup: true})
	}
	return entries
}

// head describes a draft at the moment when the gateway decided whether the client gets it.
type head struct {
	ids       int     // tokens until then; 0: no decision was made
	score     float64 // at that moment
	all       int     // tokens of the whole draft
	whole     float64 // score of the whole draft
	band      float64 // lower edge of the doubtful band
	threshold float64 // upper edge of the doubtful band
}

// isDoubtful reports whether a head check would have been made and, if passed, would have led to the draft being served.
func (h head) isDoubtful() bool {
	return h.ids > 0 && h.ids <= h.all && h.whole >= h.band && h.score < h.threshold
}

package audit

import (
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// entry is a draft as evidence for one key.
type entry struct {
	risk.Decision
	score  float64 // that it is evidence about
	ticket string  // of its audit, once that is opened
	warmup bool    // it is about what the warm-up served, and evidence for no threshold
}

// needsScoreOnly reports whether the score only helps to place a grid: no target is asked.
func (e entry) needsScoreOnly() bool { return !e.warmup && e.Version == 0 }

// counts reports whether the target's word on the draft is evidence.
func (e entry) counts() bool { return e.warmup || e.Version != 0 && e.score >= e.Floor }

// entriesOf is what a draft of a score may be evidence for by its own score, in the order in which it is booked.
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

// head is the first tokens of a draft, as they were when it was decided whether the client gets it.
type head struct {
	ids       int     // 0 where nothing was decided
	score     float64 // of them
	all       int     // ids of the whole draft
	whole     float64 // its score
	band      float64 // lower edge of the doubtful band
	threshold float64 // from which on a draft is not doubtful
}

// isDoubtful reports whether the target would have been asked about a head, and would have seen the draft kept if it
// stood by that.
func (h head) isDoubtful() bool {
	return h.ids > 0 && h.ids <= h.all && h.whole >= h.band && h.score < h.threshold
}

package evidence

import (
	"cmp"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Disagreement holds the drafts that one label calls bad and another one good.
type Disagreement struct {
	Bad, Good risk.Label
	Both      int       // drafts of which both labels are known
	Disagree  int       // of these, the ones that Bad calls bad and Good calls good
	Examples  []Example // the newest of them
}

// Example is one audited draft. It holds no text: the receipt of its request, as long as it is kept, says more.
type Example struct {
	Request     string
	When        time.Time
	Key         risk.Key
	Score       float64
	Tokens      int
	Served      bool    // its score was at least the threshold
	PrefixShare float64 // as in risk.Labels; 0 if unknown
}

// Disagreements compares all labels of the drafts in the entries, and returns each ordered pair that disagrees on at least
// one draft, the most frequent first, with at most n examples each, the newest first. A draft that was audited for several keys counts once: entries with
// the same request are the same draft. Entries without a request count, but are no examples.
func Disagreements(entries []LogEntry, n int) []Disagreement {
	pairs := pairsOfLabels()
	seen := make(map[string]bool, len(entries))
	newest := slices.Clone(entries)
	slices.SortStableFunc(newest, func(a, b LogEntry) int { return b.When.Compare(a.When) })
	for i := range newest {
		e := &newest[i]
		if e.Labels == (risk.Labels{}) || e.Request != "" && seen[e.Request] {
			continue
		}
		seen[e.Request] = true
		for p := range pairs {
			pairs[p].add(e, n)
		}
	}
	pairs = slices.DeleteFunc(pairs, func(p Disagreement) bool { return p.Disagree == 0 })
	slices.SortStableFunc(pairs, func(a, b Disagreement) int { return cmp.Compare(b.Disagree, a.Disagree) })
	return pairs
}

// pairsOfLabels returns all ordered pairs of two labels.
func pairsOfLabels() (pairs []Disagreement) {
	for bad := range risk.Label(risk.LabelCount) {
		for good := range risk.Label(risk.LabelCount) {
			if bad != good {
				pairs = append(pairs, Disagreement{Bad: bad, Good: good})
			}
		}
	}
	return pairs
}

// add counts a draft, and takes it as an example if there is room.
func (d *Disagreement) add(e *LogEntry, n int) {
	bad, good := e.Labels.Of(d.Bad), e.Labels.Of(d.Good)
	if bad == risk.OutcomeUnknown || good == risk.OutcomeUnknown {
		return
	}
	d.Both++
	if bad != risk.OutcomeBad || good != risk.OutcomeGood {
		return
	}
	d.Disagree++
	if len(d.Examples) < n && e.Request != "" {
		d.Examples = append(d.Examples, Example{
			Request: e.Request, When: e.When, Key: e.Key, Score: e.Score, Tokens: e.Tokens, Served: e.Served, PrefixShare: e.Labels.PrefixShare,
		})
	}
}

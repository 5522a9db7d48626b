package risk

import (
	"errors"
	"slices"
	"time"
)

// Import is past audits as the first evidence of a state.
type Import struct {
	Grid   Grid
	Bad    int // of the audits that count
	Failed int // policies that were tried before this one and not certified, see [Epoch].Turn
	Epoch      // that they make, without a certificate
}

// PlanImport returns what past audits, the oldest first, are as evidence by a grid, whatever grid they were made by; nil is one that they place themselves,
// if there are [GridScores] of them.
//
// They become evidence of the first epoch, the newest first, up to one lease. They age it by half a lease at most, so that
// they expire after another half, and the gateway's own audits are not displaced. Index j counts only audits whose range
// included λ_j; others were not selected at random. The caller must know that past audits are like future ones, and that
// they were not selected by outcome. Lost ones count as bad.
func PlanImport(r Rule, grid Grid, past []LogEntry) Import {
	if grid == nil && len(past) >= GridScores {
		scores := make([]float64, len(past))
		for i := range past {
			scores[i] = past[i].Score
		}
		grid = GridOf(scores)
	}
	p := Import{Grid: grid, Epoch: Epoch{Strata: strataOf(namesOf(past))}}
	for i := len(past) - 1; i >= 0; i-- {
		a := &past[i]
		first, hi := grid.First(a.Score), grid.last(a.Floor)
		if len(grid) == 0 || first > hi || p.Audits >= r.LeaseAudits {
			continue // outside of the range of all indices, or older than a lease
		}
		if a.Label != Good {
			p.Bad++
		}
		b := OpenAudit{First: first, Hi: hi, Of: a.Application}
		p.open(&b, standsFor(a))
		p.close(&b, a.Label != Good)
	}
	return p
}

// namesOf returns the applications of past audits that have counts of their own.
func namesOf(past []LogEntry) []string {
	var k Sketch
	for i := range past {
		k.Add(past[i].Application)
	}
	return k.largest()
}

// standsFor is how many drafts a past audit stands for: one in the chance with which it was drawn. Where that is not known, one
// with a floor tells nothing of how many are above it.
func standsFor(a *LogEntry) float64 {
	switch {
	case a.Chance > 0:
		return 1 / a.Chance
	case a.IsFullRange():
		return 1
	}
	return 0
}

// last is the loosest index whose threshold is floor or more, 0 where none is.
func (g Grid) last(floor float64) int {
	for j := len(g); j > 0; j-- {
		if g[j-1] >= floor {
			return j
		}
	}
	return 0
}

// ApplyImport makes an import the first evidence of a state. It reports whether it did: a state that has evidence, or had
// some before an alarm, is left as it is.
func (s *State) ApplyImport(r Rule, p Import, now time.Time) bool {
	s.begin(r)
	if s.Version != 0 || s.Alarm != 0 || len(p.Grid) == 0 {
		return false
	}
	s.Grid, s.Scores = p.Grid, nil
	s.Version, s.Cold = now.UnixMicro(), max(s.Cold, min(p.Failed, maxTurn))
	s.renew()
	e := &s.Epochs[0]
	e.Audits, e.Tally = min(p.Audits, r.LeaseAudits/2), p.Tally
	e.Strata = Strata{p.Strata.Names, slices.Clone(p.Strata.Counts)} // other replicas apply the same import
	s.Outcomes = min(s.Outcomes+p.Audits, maxOutcomes)
	s.certify(r)
	s.checkInfeasible(r)
	return true
}

// Check returns an error if the import is none that [PlanImport] makes: it was stored, and is not what was written.
func (i *Import) Check() error {
	if i == nil || !i.Grid.IsValid() || i.Failed < 0 || !i.isWhole(0) || slices.Max(i.N[:]) > i.Audits || slices.Max(i.O[:]) > 0 {
		return errors.New("risk: no past audits")
	}
	return nil
}

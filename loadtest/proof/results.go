package proof

import (
	"fmt"
	"math"

	"github.com/foregate/foregate/loadtest"
)

// Results are the figures behind the page, without a word about the machine that found them.
type Results struct {
	Seeds   []uint64                         `json:"seeds"`   // of the figures in virtual time
	Virtual map[string][]Pair                `json:"virtual"` // by claim, one with each seed
	Live    map[string][]Pair                `json:"live"`    // by claim, one with each round
	Tables  map[string]map[string]tableCells `json:"tables"`  // by scenario and case

	Changed []string `json:"-"` // what fleets that ran again did otherwise than their searches say
}

// tableCells are a case's figures by column, one with each seed.
type tableCells map[string][]float64

// Spread is what some figures have in common.
type Spread struct {
	N        int
	Mean, SD float64 // SD of the sample; 0 for fewer than two
	Min, Max float64
}

// spread sums figures up; those that are no number are left out.
func spread(list []float64) Spread {
	s := Spread{Min: math.Inf(1), Max: math.Inf(-1)}
	for _, v := range list {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		s.N++
		s.Mean += v
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	if s.N == 0 {
		return Spread{}
	}
	s.Mean /= float64(s.N)
	for _, v := range list {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.SD += (v - s.Mean) * (v - s.Mean)
		}
	}
	if s.N > 1 {
		s.SD = math.Sqrt(s.SD / float64(s.N-1))
	} else {
		s.SD = 0
	}
	return s
}

// Figures are a claim's, over its seeds or rounds.
type Figures struct{ Baseline, Foregate, Ratio Spread } // Ratio has none where there is no baseline

// figures sums pairs up. The ratio is that of each pair.
func figures(pairs []Pair) Figures {
	var b, f, r []float64
	for _, p := range pairs {
		b, f, r = append(b, p.Baseline), append(f, p.Foregate), append(r, p.Foregate/p.Baseline)
	}
	return Figures{spread(b), spread(f), spread(r)}
}

// of are the pairs of a claim.
func (r *Results) of(c *Claim) []Pair {
	switch c.Source.(type) {
	case Cases, Rent:
		return r.Virtual[c.ID]
	}
	return r.Live[c.ID]
}

// Verdict is what came of a claim.
type Verdict string

// The verdicts.
const (
	Held       Verdict = "held"
	NotReached Verdict = "not reached"
	NoGoal     Verdict = "–"            // the figure is told without a goal
	Unmeasured Verdict = "not measured" // nothing was found
)

// verdict judges a claim by its figures.
func (c *Claim) verdict(pairs []Pair) Verdict {
	switch f := figures(pairs); {
	case len(pairs) == 0:
		return Unmeasured
	case c.Goal.Of == "":
		return NoGoal
	case c.Goal.Of == Ratio && f.Ratio.N == 0:
		return Unmeasured
	case c.Goal.holds(f):
		return Held
	}
	return NotReached
}

// FillIn takes over from others what these results do not have, so that a run of some claims keeps the figures of the rest.
func (r *Results) FillIn(others *Results) {
	for id, pairs := range others.Virtual {
		if _, ok := r.Virtual[id]; !ok {
			r.Virtual[id] = pairs
		}
	}
	for id, pairs := range others.Live {
		if _, ok := r.Live[id]; !ok {
			r.Live[id] = pairs
		}
	}
	for name, t := range others.Tables {
		if _, ok := r.Tables[name]; !ok {
			r.Tables[name] = t
		}
	}
}

// Differences are what these results have otherwise than the committed ones: a virtual figure with another digit, a live ratio (or, without a baseline, a
// live figure) that is worse than the worst committed one by more than the range of those.
func (r *Results) Differences(committed *Results, claims []Claim) (out []string) {
	for i := range claims {
		c := &claims[i]
		got, want := r.of(c), committed.of(c)
		_, virtual := c.Source.(Cases)
		_, rent := c.Source.(Rent)
		switch {
		case len(got) == 0 || rent: // a search is not made again
			continue
		case len(want) == 0:
			out = append(out, fmt.Sprintf("%s: there is no committed figure", c.ID))
		case virtual:
			out = append(out, differentDigits(c.ID, got, want)...)
		default:
			out = append(out, c.worse(got, want)...)
		}
	}
	out = append(out, r.Changed...)
	for _, name := range tableNames() {
		out = append(out, differentCells(name, r.Tables[name], committed.Tables[name])...)
	}
	return out
}

// differentDigits compares the seeds that both have, from the first on.
func differentDigits(id string, got, want []Pair) (out []string) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			out = append(out, fmt.Sprintf("%s, seed %d: %v and %v, committed are %v and %v", id, i+1, got[i].Baseline, got[i].Foregate, want[i].Baseline, want[i].Foregate))
		}
	}
	return out
}

// worse compares live figures.
func (c *Claim) worse(got, want []Pair) []string {
	pick := func(f Figures) Spread {
		if f.Ratio.N > 0 {
			return f.Ratio
		}
		return f.Foregate
	}
	is, was := pick(figures(got)), pick(figures(want))
	bound := was.Max + (was.Max - was.Min)
	if is.Mean <= bound {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s, at most %s was expected (committed %s … %s)", c.ID, number(is.Mean), number(bound), number(was.Min), number(was.Max))}
}

func differentCells(name string, got, want map[string]tableCells) (out []string) {
	for _, cs := range sortedKeys(got) {
		for _, column := range sortedKeys(got[cs]) {
			is, was := got[cs][column], want[cs][column]
			for i := range min(len(is), len(was)) {
				if is[i] != was[i] {
					out = append(out, fmt.Sprintf("%s, %s, %s, seed %d: %v, committed is %v", name, cs, column, i+1, is[i], was[i]))
				}
			}
			if len(was) == 0 {
				out = append(out, fmt.Sprintf("%s, %s, %s: there is no committed figure", name, cs, column))
			}
		}
	}
	return out
}

// rows are the rows of a scenario's cases with one seed, by case.
type rows map[string]loadtest.Row

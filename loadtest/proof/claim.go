package proof

import (
	"fmt"
	"strings"

	"github.com/foregate/foregate/loadtest"
)

// Claim is a row of the page.
type Claim struct {
	ID       string // names the row on the command line
	Text     string // what is claimed
	Unit     Unit   // of both figures
	Goal     Goal   // what has to be reached, for the claim to hold
	Source   Source
	Note     string // what a reader has to know to read the figure; "" is nothing
	Headline string // the claim in the README's table; "" is not there
}

// Source says how a claim is measured: [Cases], [Rent], [Fault], [Cost] or [RealPair].
type Source interface{ source() }

// Cases measures by runs of a scenario in virtual time, a pair with each seed.
type Cases struct {
	Scenario           string
	Baseline, Foregate string   // cases, as the page names them
	Needed             []string // all cases that have to run; nil: Baseline and Foregate
	Of                 func(rows map[string]loadtest.Row) Pair
	Short              bool // also in the short form
}

// Fault measures by a row of the fault suite, live: seconds until the last request that a backend got after its fault
// began. There is no baseline.
type Fault struct{ Row string }

// Cost measures by a row of the benchmark of the gateway's cost, live: CPU time in µs, of the yardstick and of the
// gateway, a pair with each round.
type Cost struct{ Row string }

// RealPair cannot be measured here: two real engines tell it (make proof-live).
type RealPair struct{}

// otherCommand measures what loadtest proof cannot measure by itself; "" if it can.
func (c *Claim) otherCommand() string {
	switch s := c.Source.(type) {
	case Cost:
		return "make bench"
	case Rent:
		return "bin/loadtest fleets --only '" + s.Fleet + "'"
	case RealPair:
		return "make proof-live TARGET=URL DRAFT=URL"
	}
	return ""
}

func (Cases) source()    {}
func (Fault) source()    {}
func (Cost) source()     {}
func (RealPair) source() {}

// needed are the cases that have to run.
func (c Cases) needed() []string {
	if c.Needed != nil {
		return c.Needed
	}
	return []string{c.Baseline, c.Foregate}
}

// Pair is the figure of the baseline and of Foregate, from one seed or round.
type Pair struct {
	Baseline float64 `json:"baseline"` // 0 where there is none
	Foregate float64 `json:"foregate"`
}

// cases compares a figure of two cases of a scenario.
func cases(scenario, baseline, foregate string, figure func(r loadtest.Row) float64) Cases {
	return Cases{Scenario: scenario, Baseline: baseline, Foregate: foregate,
		Of: func(rows map[string]loadtest.Row) Pair { return Pair{figure(rows[baseline]), figure(rows[foregate])} }}
}

// shortCases are cases that also run in the short form.
func shortCases(scenario, baseline, foregate string, figure func(r loadtest.Row) float64) Cases {
	c := cases(scenario, baseline, foregate, figure)
	c.Short = true
	return c
}

// Goal is what a claim has to reach. The zero value is none: the figure is told without a verdict.
type Goal struct {
	Of    Subject
	Most  bool // at most Bound; else at least
	Bound float64
}

// Subject is what a [Goal] is about.
type Subject string

// The subjects of goals.
const (
	Ratio Subject = "ratio"    // Foregate's figure ÷ the baseline's
	Value Subject = "foregate" // Foregate's figure
)

// ratioAtMost and the others are goals.
func ratioAtMost(bound float64) Goal  { return Goal{Ratio, true, bound} }
func ratioAtLeast(bound float64) Goal { return Goal{Ratio, false, bound} }
func valueAtMost(bound float64) Goal  { return Goal{Value, true, bound} }
func valueAtLeast(bound float64) Goal { return Goal{Value, false, bound} }

// text is the goal in words, such as "≤ × 0.360".
func (g Goal) text(u Unit) string {
	if g.Of == "" {
		return ""
	}
	sign, bound := "≥ ", u.Text(g.Bound)
	if g.Most {
		sign = "≤ "
	}
	if g.Of == Ratio {
		bound = times.Text(g.Bound)
	}
	return sign + bound
}

// holds reports whether the means reach the goal.
func (g Goal) holds(f Figures) bool {
	v := f.Foregate.Mean
	if g.Of == Ratio {
		v = f.Ratio.Mean
	}
	if g.Most {
		return v <= g.Bound
	}
	return v >= g.Bound
}

// isShort reports whether the short form has the claim.
func (c *Claim) isShort() bool {
	switch s := c.Source.(type) {
	case Cases:
		return s.Short
	case Rent:
		return false
	}
	return true
}

// Choose are the claims of these ids, or all; in the short form those that are part of it.
func Choose(ids []string, short bool) ([]Claim, error) {
	var out []Claim
	byID, known := map[string]Claim{}, []string{}
	for _, c := range Claims() {
		byID[c.ID], known = c, append(known, c.ID)
		if !short || c.isShort() {
			out = append(out, c)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	out = nil
	for _, id := range ids {
		c, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("there is no claim %q; there are %s", id, strings.Join(known, ", "))
		}
		if other := c.otherCommand(); other != "" {
			return nil, fmt.Errorf("claim %s is measured by another command: %s", id, other)
		}
		out = append(out, c)
	}
	return out, nil
}

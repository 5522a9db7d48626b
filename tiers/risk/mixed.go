package risk

import (
	"math"
	"slices"
)

// of returns the counts of an application.
func (s *Strata) of(application string) *Counts { return &s.Counts[s.Of(application)] }

// mix returns how many drafts the audits of each stratum stand for.
func (s *Strata) mix() Mix {
	mix := make(Mix, len(s.Counts))
	for a := range s.Counts {
		for _, w := range s.Counts[a].W {
			mix[a] += w
		}
	}
	return mix
}

// mixedEvery is after how many outcomes the thresholds of a mix are certified again: it takes a millisecond.
const mixedEvery = 4

// certify finds the threshold that serves most of what the epoch's audits stand for. One that was certified stays so.
func (e *Epoch) certify(r Rule, need float64) {
	if best := e.Strata.reach(e.Strata.mix(), e.Served, r, need); best.Index > 0 {
		e.Cert, e.Served = best.Index, best.Served
	}
}

// hopelessShare is the share of what index 1 accepts that may be of strata of which nothing bad is proven, and yet nothing
// can be certified.
const hopelessShare = 0.02

// refuted reports whether even the strictest threshold does not keep to ε, in any stratum that matters. Open audits count as
// good.
func (e *Epoch) refuted(r Rule) bool {
	need, open, all := math.Log(2/r.ErrorProbability), 0.0, 0.0
	s := &e.Strata
	if len(s.Names) == 0 {
		return LogUpperE(e.N[0], e.K[0]-e.O[0], r.MaxDisagreement) >= need
	}
	for a := range s.Counts {
		c := &s.Counts[a]
		w := c.W[0]
		if all += w; LogUpperE(c.N[0], c.K[0]-c.O[0], r.MaxDisagreement) < need {
			open += w
		}
	}
	return all > 0 && open <= hopelessShare*all
}

// drifted adds the outcome of the audit of a served draft to the watch of its application, if that has one. It reports whether
// the application has drifted: its evidence begins anew, and that of the others goes on.
func (s *State) drifted(r Rule, application string, bad bool) bool {
	alarm := false
	for i := range s.Epochs {
		of := &s.Epochs[i].Strata
		if len(of.Names) == 0 {
			continue
		}
		c := of.of(application)
		c.Drift.Add(bad, r.application())
		alarm = alarm || c.Drift.Level(r.DriftRunLength) >= 1
	}
	if !alarm {
		return false
	}
	s.restart(application)
	s.Drift = Drift{}
	return true
}

// restart forgets the evidence of an application, or of the rest.
func (s *State) restart(application string) {
	for i := range s.Epochs {
		e := &s.Epochs[i]
		of := e.Strata.Of(application)
		e.Strata.Counts[of] = Counts{}
		e.Cert, e.Served = 0, 0
		for ticket, b := range s.Tickets {
			if !b.Warmup && e.Strata.Of(b.Of) == of {
				delete(s.Tickets, ticket)
			}
		}
	}
}

// Mixed is the evidence by application, for a replica that knows what its own traffic is made of. It is not changed.
type Mixed struct {
	version, alarm int64
	grid           Grid
	rule           Rule
	strata         []Strata
	need           []float64
}

// isMixed reports whether there is evidence by application.
func (s *State) isMixed() bool {
	return slices.ContainsFunc(s.Epochs, func(e Epoch) bool { return len(e.Strata.Names) > 0 })
}

// Mixed returns the evidence by application.
func (s *State) Mixed(r Rule) *Mixed {
	m := &Mixed{version: s.Version, alarm: s.Alarm, grid: s.Grid, rule: r}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if len(e.Strata.Names) > 0 {
			m.strata = append(m.strata, Strata{e.Strata.Names, slices.Clone(e.Strata.Counts)})
			m.need = append(m.need, e.evidenceNeeded(r.ErrorProbability))
		}
	}
	return m
}

// Limit is what is served of a mix: by which threshold, and of which applications. The zero Limit serves nothing.
type Limit struct {
	Reach
	strata *Strata
	of     *Mixed
}

// Limit returns by what most of the traffic is served, of which a replica has seen a part. Index 0 serves nothing.
func (m *Mixed) Limit(seen *Sketch) Limit {
	best := Limit{of: m}
	for i := range m.strata {
		s := &m.strata[i]
		if is := s.reach(seen.over(s), best.Served, m.rule, m.need[i]); is.Index > 0 {
			best.Reach, best.strata = is, s
		}
	}
	return best
}

// IsFor reports whether the limit is by the thresholds of a view, though perhaps by fewer audits.
func (l *Limit) IsFor(v View) bool {
	return l.of != nil && l.of.version == v.Version && l.of.alarm == v.Alarm
}

// Of returns the view for the requests of one application.
func (l *Limit) Of(v View, application string) View {
	if !v.Serves() || l.of == nil {
		return v
	}
	v.Op = 0
	if l.Index > 0 && l.Within[l.strata.Of(application)] {
		v.Op = l.Index
		v.Share = l.strata.of(application).accepts(l.Index)
	}
	v.Hi = min(max(v.Hi, lookTo(v.Op)), len(l.of.grid))
	v.Threshold, v.Sure = l.of.grid.At(v.Op), l.of.grid.At(v.Op-doubtfulSteps)
	v.Floor = l.of.grid.At(v.Hi)
	return v
}

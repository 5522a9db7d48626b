package risk

import (
	"maps"
	"slices"
	"time"
)

// of returns the counts of an application.
func (s *Strata) of(application string) *Counts { return &s.Counts[s.index(application)] }

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

// mixedEvery is after how many outcomes the thresholds of a mix are certified again: it takes up to 5 ms.
const mixedEvery = 8

// certify finds the threshold that serves most of what the epoch's audits stand for. One that was certified stays so.
func (e *Epoch) certify(r Rule, need float64) {
	if best := e.Strata.reach(e.Strata.mix(), e.Served, r, need); best.Index > 0 {
		e.Cert, e.Served = best.Index, best.Served
	}
}

// servedOfMix returns the share of all drafts that is served where applications are told apart; 0 where they are not.
func (s *State) servedOfMix() (share float64) {
	for i := range s.Epochs {
		share = max(share, s.Epochs[i].Served)
	}
	return share
}

// ages reports whether an audit, of which first is the strictest index that accepts it, brings the end of the epoch nearer.
// Where applications are told apart, most audits may be of drafts that are not served, and tell nothing of those that are.
func (e *Epoch) ages(first int) bool {
	return len(e.Strata.Names) == 0 || e.Cert == 0 || first <= e.Cert
}

// hopelessShare is the share of what index 1 accepts that may be of strata of which nothing bad is proven, and yet nothing
// can be certified.
const hopelessShare = 0.02

// isHopeless reports whether even the strictest threshold does not keep to ε, in any stratum that matters.
func (e *Epoch) isHopeless(r Rule) bool {
	s := &e.Strata
	if len(s.Names) == 0 {
		return e.refuted(r.MaxDisagreement, r.ErrorProbability)
	}
	open, all := 0.0, 0.0
	for a := range s.Counts {
		c := &s.Counts[a]
		w := c.W[0]
		if all += w; !c.refuted(r.MaxDisagreement, r.ErrorProbability) {
			open += w
		}
	}
	return all > 0 && open <= hopelessShare*all
}

// drifted adds the outcome of an audit to the watch of its application, if that has one and the certificate accepts the draft,
// whether a replica served it or not. It reports whether the application has drifted: its evidence begins anew, and that of the
// others goes on.
func (s *State) drifted(r Rule, b *OpenAudit, bad bool) bool {
	alarm := false
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if len(e.Strata.Names) == 0 || b.First > e.Cert {
			continue
		}
		c := e.Strata.of(b.Of)
		c.Drift.Add(bad, r.application())
		alarm = alarm || c.Drift.Level(r.DriftRunLength) >= 1
	}
	if !alarm {
		return false
	}
	s.restart(b.Of)
	s.Drift = Drift{}
	s.certify(r)
	return true
}

// maxRestarts is how many applications a state remembers the restart of. Of more, the earliest is forgotten.
const maxRestarts = 64

// Restarted returns when the evidence of an application began anew because it drifted; zero: it did not.
func (s *State) Restarted(application string) time.Time {
	if at, known := s.Restarts[application]; known {
		return at
	}
	return s.Restarts[s.counted(application)]
}

// counted returns an application that has counts of its own, and Other for one that has none.
func (s *State) counted(application string) string {
	if slices.ContainsFunc(s.Epochs, func(e Epoch) bool { return slices.Contains(e.Strata.Names, application) }) {
		return application
	}
	return Other
}

// restart forgets the evidence of an application, or of the rest.
func (s *State) restart(application string) {
	name := s.counted(application)
	if s.Restarts == nil {
		s.Restarts = map[string]time.Time{}
	}
	if s.Restarts[name] = s.Used; len(s.Restarts) > maxRestarts {
		first := slices.MinFunc(slices.Sorted(maps.Keys(s.Restarts)), func(a, b string) int { return s.Restarts[a].Compare(s.Restarts[b]) })
		delete(s.Restarts, first)
	}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		of := e.Strata.index(application)
		e.Strata.Counts[of] = Counts{}
		e.Cert, e.Served = 0, 0
		for ticket, b := range s.Tickets {
			if !b.Warmup && e.Strata.index(b.Of) == of {
				delete(s.Tickets, ticket)
			}
		}
	}
}

// isMixed reports whether there is evidence by application.
func (s *State) isMixed() bool {
	return slices.ContainsFunc(s.Epochs, func(e Epoch) bool { return len(e.Strata.Names) > 0 })
}

// Limit is what is served of a mix: by which threshold, and of which applications. The zero Limit serves nothing.
type Limit struct {
	Reach
	of      *KeyState // by whose evidence
	strata  *Strata
	need    float64
	refused []float64 // by stratum: [Counts.refused]
	spread  float64   // one in the share of the requests whose applications are not refuted
}

// Serves returns the share of a mix that the evidence allows to serve now; 0 where applications are not told apart.
func (s *State) Serves(mix *Sketch, r Rule) float64 {
	k := KeyState{State: *s, Rule: r}
	return k.Limit(mix).Served
}

// Limit returns by what most of the traffic is served, of which a replica has seen a part; nil is what the audits stand for. Index 0
// serves nothing. The limit keeps the evidence, which must not change; without a certificate it is by what is oldest of that.
func (k *KeyState) Limit(seen *Sketch) Limit {
	best, mix := Limit{of: k}, (*Strata).mix
	if seen != nil {
		mix = seen.over
	}
	for i := range k.State.Epochs {
		e := &k.State.Epochs[i]
		s, need := &e.Strata, e.evidenceNeeded(k.Rule.ErrorProbability)
		if len(s.Names) == 0 {
			continue
		}
		if best.strata == nil {
			best.strata, best.need = s, need
		}
		if is := s.reach(mix(s), best.Served, k.Rule, need); is.Index > 0 {
			best.Reach, best.strata, best.need = is, s, need
		}
	}
	if best.strata == nil {
		return best
	}
	open, all := 0.0, 0.0
	for a, w := range mix(best.strata) {
		best.refused = append(best.refused, best.strata.Counts[a].refused())
		if all += w; !best.isRefuted(a) {
			open += w
		}
	}
	if open > 0 {
		best.spread = all / open
	}
	return best
}

// isRefuted reports whether an application does not keep to its bound even by the strictest threshold.
func (l *Limit) isRefuted(a int) bool {
	return l.strata.Counts[a].refuted(l.of.Rule.application(), l.of.Rule.ErrorProbability)
}

const (
	// freshAudits is how many audits of an application are made soon, whatever they show.
	freshAudits = 200
	// provableAudits is from how many audits of an index on they tell that it may be proven, and provableShare of the bound what they must
	// be below.
	provableAudits, provableShare = 30, 0.75
)

// isProvable reports whether some audits more may prove an index for the application that is looser than one.
func (c *Counts) isProvable(than int, eps, need float64) bool {
	for j := than + 1; j <= gridSize; j++ {
		n, k := c.N[j-1], c.K[j-1]
		if n >= provableAudits && float64(k) < provableShare*eps*float64(n) && !c.keeps(j, eps, need) {
			return true
		}
	}
	return than == 0 && c.Audits < freshAudits
}

// IsFor reports whether the limit is by the thresholds of a view, though perhaps by fewer audits.
func (l *Limit) IsFor(v View) bool {
	return l.of != nil && l.of.State.Version == v.Version && l.of.State.Alarm == v.Alarm
}

// Of returns the view for the requests of one application.
func (l *Limit) Of(v View, application string) View {
	if l.strata == nil {
		return v
	}
	at := l.strata.index(application)
	c, refuted := &l.strata.Counts[at], l.isRefuted(at)
	if v.Refused = l.refused[at]; !refuted {
		v.Spread = l.spread
	}
	if !v.Serves() { // nothing is certified: a warm-up may serve what is not refuted
		v.Refuted = refuted
		return v
	}
	v.Op = 0
	switch v.Withheld = l.Index > 0 && !l.Within[at]; {
	case l.Index == 0: // nothing is certified for this mix
		v.Refuted = refuted
	case v.Withheld:
		v.Infeasible = refuted
		v.Provable = c.isProvable(0, l.of.Rule.application(), l.need)
	default:
		v.Op = l.Index
		v.Share = c.accepts(l.Index)
		v.Provable = c.isProvable(l.Index, l.of.Rule.application(), l.need)
	}
	v.Hi = min(max(v.Hi, lookTo(v.Op)), len(l.of.State.Grid))
	v.Threshold, v.Sure = l.of.State.Grid.At(v.Op), l.of.State.Grid.At(v.Op-doubtfulSteps)
	v.Floor = l.of.State.Grid.At(v.Hi)
	return v
}

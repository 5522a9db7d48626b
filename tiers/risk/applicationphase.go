package risk

import (
	"math"
	"time"
)

// maxDriftAge is how long after its drift an application is shown as drifted.
const maxDriftAge = applicationWindow

// ApplicationState is how one application stands in the traffic class in which it has most drafts. Where its class does not
// count it by itself, it is how the class stands.
type ApplicationState struct {
	Phase     Phase      `json:"state"`
	Bound     float64    `json:"risk_bound"`        // what is served of it has a risk that is proven to be below this; 1: nothing is proven
	ToCertify *float64   `json:"audits_to_certify"` // about how many more of its audits certify it; null: it is, or that is out of reach
	Drifted   *time.Time `json:"drifted"`           // when its evidence began anew in the last day, because the target disagreed more than before
}

// classState is a state with what it serves of the mix that its audits stand for.
type classState struct {
	*KeyState
	limit Limit
	class Summary
}

func (k *KeyState) forApplications(now time.Time, warmup time.Duration) *classState {
	return &classState{k, k.Limit(nil), k.Summary(now, warmup)}
}

// of returns the state of an application.
func (c *classState) of(name string, now time.Time, warmup time.Duration) ApplicationState {
	out := ApplicationState{Phase: c.class.Phase, Bound: c.class.Bound, ToCertify: c.class.ToCertify}
	if c.limit.strata != nil {
		v := c.limit.Of(c.State.View(c.Rule), name)
		out.Phase = c.State.phase(v, now, warmup)
		counts := c.limit.strata.of(name)
		j := max(v.Op, 1)
		out.Bound = upperBound(counts.N[j-1], counts.K[j-1], math.Exp(-c.limit.need))
		out.ToCertify = counts.toCertify(c.limit.boundOf(), c.limit.need)
	}
	if out.Phase == PhaseCertified {
		out.ToCertify = nil
	}
	if at := c.State.Restarted(name); now.Sub(at) < maxDriftAge {
		out.Drifted = &at
	}
	return out
}

// boundOf returns the disagreement that one more application must keep to: its own bound, and the route's if nothing else is served.
func (l *Limit) boundOf() float64 {
	if l.Index > 0 {
		return l.of.Rule.application()
	}
	return l.of.Rule.MaxDisagreement
}

// toCertify returns about how many more audits of the application prove that an index keeps to eps; nil if that is out of reach,
// or if one does, so that it is the mix that does not.
func (c *Counts) toCertify(eps, need float64) *float64 {
	best, all := math.Inf(1), c.accepts(gridSize)
	for j := 1; j <= gridSize; j++ {
		n, bad := c.N[j-1]-c.O[j-1], c.K[j-1]-c.O[j-1]
		if c.keeps(j, eps, need) {
			return nil
		}
		if part := c.accepts(j) / all; part > 0 {
			best = min(best, max(RequiredAudits(share(bad, n), eps, math.Exp(-need))-float64(n), 1)/part)
		}
	}
	if math.IsInf(best, 1) || math.IsNaN(best) {
		return nil
	}
	return &best
}

package risk

import "math"

// Summary is a [State] for people: what is served, what audits show, and how far the next threshold is.
type Summary struct {
	Op         int     // operating index, 0: nothing is served
	Threshold  float64 // λ_Op; above every score where Op is 0
	Acceptance float64 // share of the drafts that it accepted when the grid was placed, 0 … 1; at least, where scores are equal

	// Evidence is of one epoch, the one that certified Op (of several that did, that with more
	// audits), and of one index: Op, or 1 where Op is 0.
	Audits   int     // that have an outcome
	Bad      int     // of those
	Estimate float64 // Bad/Audits; 0 of no audits
	Low      float64 // where the risk is, at every moment of the epoch with probability 1 − δ: from here
	High     float64 // to here ([Interval])
	Bound    float64 // the risk is below this, by the evidence that certifies: at δ/2 for all thresholds together, what has no outcome is bad
	Pending  int     // audits that have no outcome: under way or lost

	ToCertify  float64 // audits that are still needed for the next index, about ([RequiredAudits]); 0 after the last, +Inf where it seems out of reach
	Drift      float64 // how far the watch for a drift has come, 0 … 1: 1 is the alarm
	Warned     bool    // a drift is suspected, so more is audited
	Infeasible bool    // not even the strictest threshold keeps to ε
	Learned    int     // scores that were collected for the grid, of [GridScores]; 0 once it is placed
}

// Summarise returns the summary of the state under a rule. It changes nothing.
func (s *State) Summarise(r Rule) Summary {
	v := s.View(r)
	sum := Summary{
		Op: v.Op, Threshold: v.Threshold, Acceptance: AcceptanceShare(v.Op), High: 1, Bound: 1,
		Drift: min(max(s.Drift.Level(r.DriftRunLength), 0), 1), Warned: v.Warned, Infeasible: v.Infeasible, Learned: len(s.Scores),
	}
	j := min(max(v.Op, 1), gridSize)
	e := s.witness(v.Op, j)
	if e != nil {
		sum.Audits, sum.Bad = e.Closed(j)
		sum.Estimate = share(sum.Bad, sum.Audits)
		sum.Low, sum.High = Interval(sum.Audits, sum.Bad, r.ErrorProbability)
		sum.Bound = bound(e.N[j-1], e.K[j-1], e.level(r.ErrorProbability)/gridSize)
		sum.Pending = e.O[j-1]
	}
	sum.ToCertify = s.toCertify(e, v, r)
	return sum
}

// witness returns the epoch that certifies index op: of several the one with most audits of index j; of all epochs if op
// is 0; nil if none lives.
func (s *State) witness(op, j int) *Epoch {
	var best *Epoch
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if e.Cert >= op && (best == nil || e.N[j-1] > best.N[j-1]) {
			best = e
		}
	}
	return best
}

// toCertify returns about how many audits the epoch still needs until the next threshold is certified: the one beyond the
// operating index that needs the fewest. Without audits it assumes that all will be good.
func (s *State) toCertify(e *Epoch, v View, r Rule) float64 {
	switch {
	case v.Infeasible:
		return math.Inf(1)
	case s.Version != 0 && v.Op >= len(s.Grid):
		return 0
	case e == nil:
		e = &Epoch{Turn: 1}
	}
	need := math.Inf(1)
	for j := v.Op + 1; j <= min(max(v.Hi, 1), gridSize); j++ {
		n, bad := e.Closed(j)
		more := RequiredAudits(share(bad, n), r.MaxWrongRate, e.level(r.ErrorProbability)/gridSize) - float64(n)
		counted := AcceptanceShare(j) / AcceptanceShare(max(v.Hi, 1)) // share of the audits with a score of λ_j or more
		need = min(need, max(more, 0)/counted)
	}
	return need
}

// share returns part/whole, and 0 if whole is 0.
func share(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// bound returns the smallest ε that n audits, k of them bad, refute at delta: the risk is below it at every moment with
// probability 1 − delta. It is 1 without audits.
func bound(n, k int, delta float64) float64 {
	need := math.Log(1 / delta)
	return edge(share(k, n), 1, func(eps float64) bool { return LogE(n, k, eps) < need })
}

package risk

import (
	"math"
	"time"
)

// Phase is what a traffic class is served by.
type Phase string

// The phases.
const (
	PhaseWarmup      Phase = "warmup"      // the first period: nothing is certified; cautious drafts may be served
	PhaseStopped     Phase = "stopped"     // the target disagreed with too many drafts served in the warm-up: the target answers, and audits continue
	PhaseCertified   Phase = "certified"   // drafts are served by a certified threshold
	PhaseUncertified Phase = "uncertified" // not enough audits yet: the target answers
	PhaseLearning    Phase = "learning"    // scores are collected to choose the thresholds: the target answers
	PhaseInfeasible  Phase = "infeasible"  // audits show that no threshold keeps the guarantee: the target answers
	PhaseOff         Phase = "off"         // of an application: operators have said so
)

// phase returns the phase of the traffic class by its view. limit is the duration of its warm-up.
func (s *State) phase(v View, now time.Time, limit time.Duration) Phase {
	switch {
	case v.Serves():
		return PhaseCertified
	case v.Infeasible:
		return PhaseInfeasible
	case s.Warmup.Ended == WarmupDisagreement:
		return PhaseStopped
	case s.Warmup.Began != 0 && s.Warmup.IsRunning(now, limit):
		return PhaseWarmup
	case s.Version == 0:
		return PhaseLearning
	}
	return PhaseUncertified
}

// Summary is a [State] for people, as GET /admin/risk returns it: the guarantee, whether it is kept, and the audits behind
// it. Shares are 0 … 1.
type Summary struct {
	Route        string `json:"route"`
	TrafficClass string `json:"traffic_class"`
	Phase        Phase  `json:"state"`

	MaxDisagreement  float64 `json:"max_disagreement"`  // guarantee: the target would have refused at most this share of the served drafts …
	ErrorProbability float64 `json:"error_probability"` // … except with this probability

	Op         int      `json:"operating_index"`     // number of the certified threshold, from the strictest; 0: nothing is served
	Threshold  *float64 `json:"threshold_nats"`      // null while nothing is served
	Acceptance float64  `json:"expected_acceptance"` // share of the drafts that it accepted when it was placed

	// Evidence is of one epoch, the one that certified Op (of several that did, that with more
	// audits), and of one index: Op, or 1 where Op is 0.
	Audits   int     `json:"audits"`        // that have an outcome
	Bad      int     `json:"bad"`           // of those
	Pending  int     `json:"pending"`       // without an outcome; they count as bad
	Estimate float64 `json:"risk_estimate"` // bad ÷ audits
	Low      float64 `json:"risk_lower"`    // interval that contains the risk at all times, with probability 1 − delta
	High     float64 `json:"risk_upper"`
	Bound    float64 `json:"risk_bound"` // the risk is proven to be below this, with probability 1 − delta/2

	ToCertify *float64 `json:"audits_to_certify"` // about how many are still needed for the next threshold; null: out of reach
	Drift     float64  `json:"drift_level"`       // 1 is the alarm, which revokes all certificates
	Warned    bool     `json:"drift_warned"`      // a drift is suspected, so more is audited
	Alarms    int64    `json:"drift_alarms"`
	Learned   int      `json:"scores_learned"` // of scores_wanted
	Wanted    int      `json:"scores_wanted"`  // 0 once the thresholds are placed
	Warmup    Warmup   `json:"warmup"`
}

// Summary returns the summary of a key. limit is the duration of its warm-up. It changes nothing.
func (k *KeyState) Summary(now time.Time, limit time.Duration) Summary {
	s, r := &k.State, k.Rule
	v := s.View(r)
	sum := Summary{
		Route: k.Key.Route, TrafficClass: k.Key.TrafficClass, Phase: s.phase(v, now, limit),
		MaxDisagreement: r.MaxDisagreement, ErrorProbability: r.ErrorProbability, Op: v.Op, Acceptance: v.Share, High: 1, Bound: 1,
		Drift: min(max(s.Drift.Level(r.DriftRunLength), 0), 1), Warned: v.Warned, Alarms: s.Alarm, Learned: len(s.Scores), Warmup: s.Warmup,
	}
	sum.Warmup.Began, sum.Warmup.Ended = 0, WarmupRuns // the phase tells
	if s.Version == 0 {
		sum.Wanted = GridScores
	}
	j := min(max(v.Op, 1), gridSize)
	e := s.witness(v.Op, j)
	if e != nil {
		sum.Audits, sum.Bad = e.Closed(j)
		sum.Estimate = share(sum.Bad, sum.Audits)
		sum.Low, sum.High = Interval(sum.Audits, sum.Bad, r.ErrorProbability)
		sum.Bound = upperBound(e.N[j-1], e.K[j-1], e.level(r.ErrorProbability)/gridSize)
		sum.Pending = e.O[j-1]
	}
	if v.Op > 0 {
		sum.Threshold, sum.Bound = &v.Threshold, min(sum.Bound, r.MaxDisagreement) // a certificate remains a proof during later audits
	}
	if need := s.toCertify(e, v, r); !math.IsInf(need, 0) {
		sum.ToCertify = &need
	}
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
		more := RequiredAudits(share(bad, n), r.MaxDisagreement, e.level(r.ErrorProbability)/gridSize) - float64(n)
		counted := AcceptanceShare(j) / AcceptanceShare(max(v.Hi, 1)) // share of the audits with a score of λ_j or more
		need = min(need, max(more, 0)/counted)
	}
	return need
}

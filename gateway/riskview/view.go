// Package riskview describes the state of the guarantee for each kind of request in the operators' words: its
// phase, the results of audits, and the time until a first certificate. A [Viewer] makes these views from
// states of the evidence; a [Watcher] does it for a running replica, and logs each change of phase.
package riskview

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

const (
	// inUse is the time, before the last use of the route's latest class, within which another class counts
	// as in use. Classes of former models do not count.
	inUse = 10 * time.Minute
)

// Viewer makes views.
type Viewer struct {
	Config func(route string) *plan.Config // live
	Rates  Rates
	Now    time.Time
}

// Views returns the states as operators see them, in their order.
func (l Viewer) Views(known []evidence.KeyState) []gateway.RiskView {
	views := make([]gateway.RiskView, len(known))
	for i := range known {
		views[i] = l.view(&known[i])
	}
	return views
}

func (l Viewer) view(k *evidence.KeyState) gateway.RiskView {
	s, c := k.State.Summarise(k.Rule), l.Config(k.Key.Route)
	v := gateway.RiskView{
		Route: k.Key.Route, TrafficClass: k.Key.TrafficClass, State: l.phase(k),
		MaxWrongRate: k.Rule.MaxWrongRate, ErrorProbability: k.Rule.ErrorProbability, OperatingIndex: s.Op, Acceptance: s.Acceptance,
		Audits: s.Audits, Bad: s.Bad, Pending: s.Pending, Estimate: s.Estimate, Lower: s.Low, Upper: s.High, Bound: s.Bound,
		DriftLevel: s.Drift, DriftWarned: s.Warned, DriftAlarms: k.State.Alarm,
	}
	if !math.IsInf(s.ToCertify, 0) {
		v.AuditsToCertify = &s.ToCertify
	}
	if pace, ok := l.Rates[k.Key]; ok {
		v.AuditsPerMinute = &pace
	}
	if s.Op > 0 {
		v.Threshold, v.Bound = &s.Threshold, min(v.Bound, v.MaxWrongRate) // a certificate remains a proof during later audits
	}
	if k.State.Version == 0 {
		v.ScoresLearned, v.ScoresWanted = s.Learned, risk.GridScores
	}
	v.Warmup = l.warmup(k, c, v.State)
	v.SecondsToCertify = secondsToCertify(&v)
	return v
}

// phase is the state of a kind of request by its evidence.
func (l Viewer) phase(k *evidence.KeyState) gateway.RiskState {
	v, w := k.State.View(k.Rule), &k.State.Warmup
	switch {
	case v.Serves():
		return gateway.RiskCertified
	case v.Infeasible:
		return gateway.RiskInfeasible
	case w.Ended == risk.WarmupWrong:
		return gateway.RiskStopped
	case w.Began != 0 && w.IsRunning(l.Now, l.Config(k.Key.Route).Risk.WarmupDuration):
		return gateway.RiskWarmup
	case k.State.Version == 0:
		return gateway.RiskLearning
	}
	return gateway.RiskUncertified
}

// warmup is the state of a kind's warm-up; nil if there was none.
func (l Viewer) warmup(k *evidence.KeyState, c *plan.Config, phase gateway.RiskState) *gateway.WarmupView {
	w := &k.State.Warmup
	if w.Began == 0 {
		return nil
	}
	n, bad := w.Closed()
	v := &gateway.WarmupView{Drafts: w.Drafts, Served: w.Served, Audits: n, Bad: bad}
	v.Low, v.High = risk.Interval(n, bad, k.Rule.ErrorProbability)
	if n > 0 {
		v.WrongRate = float64(bad) / float64(n)
	}
	switch {
	case w.Ended == risk.WarmupCertified:
		v.Ended = "certified"
	case w.Ended == risk.WarmupInfeasible:
		v.Ended = "infeasible"
	case w.Ended == risk.WarmupWrong:
		v.Ended = "wrong"
	case !w.IsRunning(l.Now, c.Risk.WarmupDuration):
		v.Ended = "time"
	default:
		v.SecondsLeft = w.Remaining(l.Now, c.Risk.WarmupDuration).Seconds()
		if pace := w.PerMinute(l.Now); pace > 0 {
			v.DraftsPerMinute = &pace
		}
	}
	// For a fitted score no cautious threshold is known in advance.
	known := plan.ScoreOf(k.Key) == 0 || risk.IsKnown(k.State.View(k.Rule).Cautious)
	v.Serves = phase == gateway.RiskWarmup && c.Mode == plan.ModeRisk && c.Risk.Warmup && c.Risk.MaxConcurrentAudits > 0 && w.HasOutcomes() && known
	return v
}

// guaranteesOf summarizes states, one line per route, with the main kind of each.
func guaranteesOf(known []evidence.KeyState, views []gateway.RiskView) []gateway.RiskSummary {
	lines := gateway.RiskSummaries(views)
	for i := range lines {
		lines[i].Main = mainOf(lines[i].Route, known, views)
	}
	return lines
}

// mainOf is the view of a route's kind of request with the most drafts and audits, of those in use; nil if
// there is none.
func mainOf(route string, known []evidence.KeyState, views []gateway.RiskView) *gateway.RiskView {
	own := func(k risk.Key) bool {
		return k.Route == route
	}
	var last time.Time
	for i := range known {
		if k := &known[i]; own(k.Key) && k.Seen.After(last) {
			last = k.Seen
		}
	}
	var best *gateway.RiskView
	maxSamples := -1
	for i := range known {
		k := &known[i]
		if !own(k.Key) || last.Sub(k.Seen) > inUse {
			continue
		}
		if n := k.State.Warmup.Drafts + k.State.Outcomes + views[i].Audits + views[i].ScoresLearned; n > maxSamples {
			best, maxSamples = &views[i], n
		}
	}
	return best
}

// Routes are the routes of states, sorted.
func Routes(known []evidence.KeyState) []string {
	var routes []string
	for i := range known {
		routes = append(routes, known[i].Key.Route)
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

// Rules is the fingerprint of models and rules in a key.
func Rules(k risk.Key) string {
	_, rest, _ := strings.Cut(k.TrafficClass, ".")
	rules, _, _ := strings.Cut(rest, ".")
	return rules
}

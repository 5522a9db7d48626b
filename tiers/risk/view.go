package risk

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// Key identifies the evidence for one traffic class.
type Key struct {
	Route        string `json:"route"`
	TrafficClass string `json:"traffic_class"` // requests, models and rules: see plan.EvidenceKeyOf
}

var (
	wordShape   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	ticketShape = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

// maxRoute is the longest name of a route, in bytes.
const maxRoute = 256

// Check returns what is wrong with the key.
func (k Key) Check() error {
	if k.Route == "" || len(k.Route) > maxRoute || strings.ContainsFunc(k.Route, func(r rune) bool { return r < ' ' || r == '\u007f' || r == '\ufffd' }) {
		return fmt.Errorf("risk: route %.80q is not 1 to %d printable bytes", k.Route, maxRoute)
	}
	if !wordShape.MatchString(k.TrafficClass) {
		return fmt.Errorf("risk: traffic class %.80q is not 1 to 64 of A-Z, a-z, 0-9, . _ -", k.TrafficClass)
	}
	return nil
}

// String returns the key as one word.
func (k Key) String() string { return k.Route + "/" + k.TrafficClass }

// Rule is the promise and how it is kept. All replicas must have the same.
type Rule struct {
	MaxDisagreement float64 `json:"eps" setting:"risk.max_disagreement" default:"0.1" min:"0.001" max:"0.5" doc:"Modes 'risk' and 'shadow': the largest share of unverified drafts that the target may disagree with. A new value takes effect at once: certified thresholds are computed again from the evidence that is there. It may be chosen by that evidence ('foregate risk show --frontier')."` // ε
	// MaxDisagreementLow is ε for the classes of low priority; 0: they have no evidence of their own. [Rule.For] puts it in place.
	MaxDisagreementLow float64 `json:"eps_low,omitzero" setting:"risk.max_disagreement_low" default:"0" min:"0" max:"0.5" doc:"Modes 'risk' and 'shadow': 'risk.max_disagreement' for requests of priority low. With it they have evidence, thresholds and cached answers of their own, so each bound holds for its own requests. 0: 'risk.max_disagreement' is for all priorities."`
	// MaxDisagreementApplication is the largest share of the served drafts of one application; 0: twice MaxDisagreement.
	MaxDisagreementApplication float64 `json:"eps_app,omitzero" setting:"risk.max_disagreement_application" default:"0" min:"0" max:"0.5" doc:"Modes 'risk' and 'shadow': the largest share of the unverified drafts of one application that the target may disagree with, where applications are told apart. All applications together keep to 'risk.max_disagreement'. 0: twice that. The same value as 'risk.max_disagreement' holds each application to it."`
	ErrorProbability           float64 `json:"delta" setting:"risk.error_probability" default:"0.05" min:"0.0001" max:"0.5" doc:"Modes 'risk' and 'shadow': the probability that a certificate is wrong, that is, that the disagreement exceeds 'risk.max_disagreement'. It holds for each lease ('risk.lease_audits')."` // δ
	LeaseAudits                int     `json:"lease" setting:"risk.lease_audits" default:"4000" min:"200" max:"1000000" doc:"Audits after which a certificate expires and must be earned again. A smaller value follows drift faster and accepts fewer drafts."`
	DriftRunLength             float64 `json:"run"` // least mean number of audits between two false drift alarms
}

// LowPriority is in the name of a traffic class whose requests are all of priority low.
const LowPriority = "_low"

// IsLow reports whether the requests of a traffic class are all of priority low.
func IsLow(trafficClass string) bool {
	class, _, _ := strings.Cut(trafficClass, ".")
	return strings.Contains(class, LowPriority)
}

// For returns the rule of a traffic class.
func (r Rule) For(trafficClass string) Rule {
	if r.MaxDisagreementLow > 0 && IsLow(trafficClass) {
		r.MaxDisagreement = r.MaxDisagreementLow
	}
	r.MaxDisagreementLow = 0
	return r
}

// application returns the largest share of the served drafts of one application that the target may disagree with.
func (r Rule) application() float64 {
	if r.MaxDisagreementApplication > 0 {
		return r.MaxDisagreementApplication
	}
	return min(2*r.MaxDisagreement, maxApplicationShare)
}

// maxApplicationShare bounds the default of [Rule.MaxDisagreementApplication].
const maxApplicationShare = 0.5

// Check returns an error if no promise can be kept by the rule.
func (r Rule) Check() error {
	if !(r.MaxDisagreement > 0 && r.MaxDisagreement < 1 && r.ErrorProbability > 0 && r.ErrorProbability < 1 && r.LeaseAudits >= 2 && r.DriftRunLength >= 1 && r.DriftRunLength <= 1e15) {
		return fmt.Errorf("risk: no promise can be kept by ε %g, δ %g, lease %d, run %g", r.MaxDisagreement, r.ErrorProbability, r.LeaseAudits, r.DriftRunLength)
	}
	return nil
}

// View is what a request needs to know of a [State].
type View struct {
	Version    int64 // of the grid; 0: there is none yet
	Alarm      int64 // changes with each drift alarm
	Op, Hi     int   // operating index, and the last audited index
	Threshold  float64
	Sure       float64 // a served draft with a lower score is doubtful: the loosest two certified thresholds accept it, stricter ones do not
	Floor      float64 // λ_Hi
	Share      float64 // of the drafts, or of those of the request's application, that Op accepts
	Withheld   bool    // drafts of other applications are served, not those of the request's
	Provable   bool    // some audits more of the application may prove that its drafts can be served, or by a looser threshold
	Spread     float64 // factor on the audits of the application: those that refuted ones do not take come to the others; 0: 1
	Refused    float64 // at least this share of the drafts of the request's application is refused by the target; 0: not known
	Refuted    bool    // nothing is certified for the mix, and not even the best drafts of the request's application keep to its bound
	Mixed      bool    // there is evidence by application: [KeyState.Limit]
	Warned     bool    // a drift is suspected
	Infeasible bool    // not even the strictest threshold keeps to ε

	Warmup     Warmup
	Cautious   float64 // score that the best third of the drafts reach; above every score while unknown
	CautiousHi int     // its index; 0 before there is a grid

	Seen time.Time // time of the last successful read; zero: never
	New  bool      // no request of its traffic class is known
}

// SpreadOver returns the share of an application's drafts that is audited where so many of all may be.
func (v View) SpreadOver(rate float64) float64 { return min(rate*max(v.Spread, 1), 1) }

// Serves reports whether a certificate allows serving drafts.
func (v View) Serves() bool { return v.Op > 0 }

// IsKnown reports whether a score can occur. [View].Cautious cannot while too few scores are known.
func IsKnown(score float64) bool { return score < Unreachable }

// Decision is the threshold for one request, and whether its draft is audited.
type Decision struct {
	Key
	Version   int64   `json:"grid"`  // of the grid
	Alarm     int64   `json:"alarm"` // drift alarms before it
	Op        int     `json:"-"`
	Hi        int     `json:"hi"`        // last threshold that its audit counts for
	Threshold float64 `json:"threshold"` // least accepted score; above every score if none is accepted
	Floor     float64 `json:"floor"`     // least audited score
	Audited   bool    `json:"-"`         // drawn at random before the draft began
	Chance    float64 `json:"chance"`    // the probability with which it was drawn; 0: not at random, so that it is no evidence

	Common    float64 `json:"-"` // floor of those audits that have one
	FullRange float64 `json:"-"` // share of the audits that have none
}

// Within returns the decision for a draft that does not go on below the score with which it is served: its audit is
// evidence for that threshold and stricter ones. It is made before the draft begins.
func (v View) Within(d Decision) Decision {
	d.Hi, d.Floor = v.Op, v.Threshold
	if v.Op == 0 { // of a warm-up
		d.Hi, d.Floor = v.CautiousHi, v.Cautious
	}
	d.Audited = d.Audited && d.Hi > 0
	return d
}

// Sampling is how drafts are drawn for audits. It may not depend on the draft.
type Sampling struct {
	Rate      float64 // share of the drafts that is audited, 0 … 1
	FullRange float64 // share of the audits that have no floor, 0 … 1
}

// Decide decides whether a draft is audited. random is a number drawn evenly from 0 … 1.
//
// Most audits are of drafts above the floor λ_Hi, because nothing below it can be certified soon. Full-range audits are
// of all drafts. They alone tell how many drafts each threshold accepts, and what is below the floor. An audit is
// evidence for an index only if its range includes the index, and the range is drawn before the draft begins, so both
// kinds are random samples of the drafts above each λ_j that they count for.
func (v View) Decide(k Key, s Sampling, random float64) Decision {
	d := Decision{
		Key: k, Version: v.Version, Alarm: v.Alarm, Op: v.Op, Hi: v.Hi,
		Threshold: v.Threshold, Floor: v.Floor, Audited: random < s.Rate, Chance: s.Rate, Common: v.Floor, FullRange: s.FullRange,
	}
	if v.Op == 0 {
		d.Threshold = Unreachable
	}
	if v.Version == 0 || random < s.Rate*s.FullRange {
		d.Floor = -Unreachable // all scores help to place the grid
		d.Hi = gridSize
	}
	return d
}

// Of returns the decision for a draft with a score: below the floor of the others only the audits of all scores are drawn.
func (d Decision) Of(score float64) Decision {
	if d.Version != 0 && score < d.Common {
		d.Chance *= d.FullRange
	}
	return d
}

// Audit is an audit that is about to start: the target will now check the draft.
type Audit struct {
	Decision
	Ticket   string    `json:"ticket"` // its id: 1 … 64 of [A-Za-z0-9-]
	Score    float64   `json:"score"`
	Features []float64 `json:"features"` // of the score, in the order of accept.FeatureNames, at most 8
	Tokens   int       `json:"tokens"`   // of the draft
	Request  string    `json:"request"`  // id of the draft's request: as a ticket, or "" if unknown

	Application string `json:"application,omitempty"` // of the request, see package application
}

const (
	// maxFeatures is how many features an audit may have.
	maxFeatures = 8
	// maxCount is the largest count.
	maxCount = 9e15
	// maxApplication is the longest name of an application, in bytes.
	maxApplication = 140
)

// Check returns the field that no audit has in this way, and what it should be; nil if there is none.
func (a *Audit) Check() error {
	for _, x := range append([]float64{a.Score, a.Floor, a.Threshold}, a.Features...) {
		if !(math.Abs(x) <= Unreachable) {
			return errors.New("score, floor, threshold, features: want numbers from -1e9 to 1e9")
		}
	}
	switch {
	case len(a.Application) > maxApplication || strings.ContainsFunc(a.Application, func(r rune) bool { return r <= ' ' || r >= '\u007f' }):
		return fmt.Errorf("application: want at most %d printable bytes", maxApplication)
	case len(a.Features) > maxFeatures:
		return fmt.Errorf("features: want at most %d", maxFeatures)
	case !IsTicket(a.Ticket), a.Request != "" && !IsTicket(a.Request):
		return errors.New("ticket, request: want 1 to 64 letters, digits and hyphens")
	case min(int64(a.Tokens), int64(a.Hi), a.Version, a.Alarm) < 0 || max(int64(a.Tokens), a.Version, a.Alarm) > maxCount:
		return errors.New("tokens, grid, alarm: want counts")
	case !(a.Chance >= 0 && a.Chance <= 1):
		return errors.New("chance: want a probability")
	}
	return a.Key.Check()
}

// IsTicket reports whether a text may identify an audit.
func IsTicket(text string) bool { return ticketShape.MatchString(text) }

// Policy returns the decision as headers and receipts show it.
func (d Decision) Policy() string { return fmt.Sprintf("g%d.a%d.op%d", d.Version, d.Alarm, d.Op) }

// Rates say how much is audited.
type Rates struct {
	Audit              float64 `setting:"risk.audit_rate" default:"0.05" min:"0" max:"1" doc:"Share of drafts that the target audits in the background while a threshold is certified. During the first hour of a traffic class half of them are audited, if the target has spare capacity."`
	ColdStart          float64 // largest share of requests with a shadow draft while none is certified
	ColdStartPerMinute float64 `setting:"risk.cold_start_audits_per_minute" default:"20" min:"0" max:"100000" doc:"Audits per minute that all replicas together aim at for one traffic class while no threshold is certified."`
	Boost              float64 // factor on Audit while a drift is suspected, and for a new traffic class while the target has spare capacity
	Explore            float64 // share of requests with a shadow draft while no threshold can be certified
	FullRange          float64 // share of the audits that have no floor
}

// BoostedRate returns the audited share while more evidence is wanted soon.
func (r Rates) BoostedRate() float64 { return min(r.Audit*r.Boost, 1) }

// AuditRate returns the share of requests whose drafts are audited, by a view and the traffic class's requests per
// minute over all replicas.
func (r Rates) AuditRate(v View, perMinute float64) float64 {
	switch {
	case (v.Infeasible || v.Refuted) && !v.Serves():
		return min(r.Explore, 1)
	case (v.Withheld || v.Serves()) && v.Provable:
		return r.BoostedRate()
	case v.Withheld:
		return min(r.Audit, 1)
	case v.Serves() && v.Warned:
		return r.BoostedRate()
	case v.Serves():
		return v.SpreadOver(r.Audit)
	case v.Version == 0, perMinute <= 0:
		return r.ColdStart // while the grid is learned the target is not asked
	}
	region := AcceptanceShare(max(v.Hi, 1))
	return v.SpreadOver(min(r.ColdStart, r.ColdStartPerMinute/(perMinute*region)))
}

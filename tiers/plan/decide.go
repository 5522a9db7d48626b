package plan

import (
	"math"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/risk"
)

// Decision says how a request is answered. [Decide] makes it, once.
type Decision struct {
	Plan                      // that is followed: what was allowed, or less. Its Reason says why no draft is judged
	Steps    []Step           // in order: the next one is taken where one gives no answer and the client has nothing of it
	Accept   accept.Config    // the threshold and the score by which the draft is judged
	Audit    *AuditDecision   // in the modes risk and shadow; nil in others
	Estimate economy.Estimate // expected cost; zero without prices
}

// IsWarmup reports whether a draft is judged by the threshold of a warm-up.
func (d *Decision) IsWarmup() bool { return d.Audit != nil && d.Audit.Warmup }

// Step is one way to an answer, at one tier's pool.
type Step struct {
	Tier Tier
	Way  Way
}

// Way is how an answer is made.
type Way uint8

// The ways. Those with a draft go on where the draft pool has a place at once, and else to the next step: the target may
// have one. Whether the draft is the answer shows on the way.
const (
	Relay      Way = iota // the pool's answer is passed on. It waits for a place as long as the admission queue allows
	Speculate             // a draft is streamed while it is judged, and continued by the target
	Hold                  // a draft is judged whole, then served or continued
	InOnePiece            // a draft with tool calls comes in one piece
)

// Why a request that may be drafted is answered by the target.
const (
	ReasonRejectedBefore = "rejected_before" // the target has rejected the last draft for the same request; whatever the mode
	ReasonUncertified    = "uncertified"     // no threshold is certified for its kind
	reasonInfeasible     = "infeasible"      // none can be, as audits say
	reasonLowAgreement   = "low_agreement"   // the target stands by too few drafts of its application for drafts to pay
	reasonShadow         = "shadow"          // the mode says so
)

// Inputs are what [Decide] reads. It changes nothing of it.
type Inputs struct {
	Plan     Plan
	Config   *Config
	Request  *openai.Request
	Rejected bool // the target has rejected the last draft for the same request
	Scarce   bool // the target is short of room

	Prices   economy.Prices      // of the route
	Cached   economy.Cached      // of the prompt
	Expected economy.Expectation // statistics of its traffic class
	Explore  float64             // random number from [0, 1)

	// In the modes risk and shadow:
	Key         risk.Key // of its evidence
	Application string   // whose score it goes by
	Views       *Views   // the evidence when it is decided
	All         bool     // audits are of drafts with any score
	Draw        float64  // random number from [0, 1); 1: its draft may not be audited
}

// Decide is the only place that chooses.
func Decide(in *Inputs) Decision {
	d := Decision{Plan: in.Plan, Accept: in.Config.Accept}
	spare := in.Config.When == WhenScarce && !in.Scarce
	switch {
	case !d.Judged:
	case in.Rejected:
		d.Plan = Plan{Tier: Target, Reason: ReasonRejectedBefore}
	case in.Config.Mode.Audited():
		if d.Accept.ScoreMap != nil {
			d.Accept.ScoreMap = d.Accept.ScoreMap.For(in.Application)
		}
		e := in.Views.Expected(in.Config, in.Expected)
		switch in.weigh(&d, e); {
		case d.Reason == economy.ReasonNoSaving && in.Views.Own.Refused > 0 && e.UpperBound == 1-in.Views.Own.Refused:
			d.Reason = reasonLowAgreement
		case spare && d.Judged:
			d.keepFrom(reasonSpare)
		}
		in.certify(&d)
	case spare:
		d.keepFrom(reasonSpare)
	default:
		d.Accept.ScoreMap = nil // its thresholds are those of the audited modes
		in.weigh(&d, in.Expected)
	}
	d.Steps = d.steps()
	return d
}

// The lists of steps, one for each kind of plan.
var (
	byDraft    = []Step{{Draft, Relay}}
	byTarget   = []Step{{Target, Relay}}
	speculates = []Step{{Draft, Speculate}, {Target, Relay}}
	holds      = []Step{{Draft, Hold}, {Target, Relay}}
	callsTools = []Step{{Draft, InOnePiece}, {Target, Relay}}
)

// steps returns the steps of a plan.
func (p *Plan) steps() []Step {
	switch {
	case !p.Judged && p.Tier == Draft:
		return byDraft
	case !p.Judged:
		return byTarget
	case p.Calls:
		return callsTools
	case p.Whole:
		return holds
	}
	return speculates
}

// weigh drops the draft if it is not expected to save cost.
func (in *Inputs) weigh(d *Decision, e economy.Expectation) {
	shape := economy.Shape{
		Prompt: in.Request.PromptTokens, Cached: in.Cached, MaxOutput: in.Request.Limit(), Holdback: in.Config.HoldbackTokens,
		Whole: d.Whole, Scored: d.Checked,
	}
	var reason string
	if d.Estimate, reason = economy.Decide(in.Config.Economy, in.Prices, shape, e, in.Explore); reason != "" {
		d.keepFrom(reason)
	}
}

// IsKeptFromDraft reports whether the guard or scarcity, not the evidence, keeps the request from its draft.
func (d *Decision) IsKeptFromDraft() bool {
	return d.Reason == economy.ReasonNoSaving || d.Reason == reasonLowAgreement || d.Reason == reasonSpare
}

// keepFrom lets the target answer for a reason. Its draft may still be audited in the background.
func (d *Decision) keepFrom(reason string) {
	d.Plan = Plan{Tier: Target, Reason: reason, Mode: d.Mode, Whole: d.Whole, Calls: d.Calls, Auditor: d.Auditor}
}

// certify decides in the modes risk and shadow by which threshold the draft is judged, whether it is audited, and whether
// the client sees any of it.
//
// What the guard keeps from the draft because too few are accepted is still drafted in the shadow, as while nothing is
// certified: else a threshold that could be certified never would be.
func (in *Inputs) certify(d *Decision) {
	shut, own := !d.Judged, &in.Views.Own
	if in.decideAudit(d, shut) {
		return
	}
	d.Tier, d.Judged = Target, false
	switch {
	case in.Config.Mode == ModeShadow:
		d.Reason = reasonShadow
	case shut: // the guard has set the reason
	case own.Infeasible, own.Refuted:
		d.Reason = reasonInfeasible
	default:
		d.Reason = ReasonUncertified
	}
	d.Audit.Shadow = d.Audit.Own.Audited && d.Estimate.BreakEven <= 1
}

// decideAudit decides whether the draft is audited, and by which threshold it is served. No draft is served if the guard
// has dropped it (shut), or by a warm-up while too few of its audits have an outcome. Then shadow drafts are audited, so
// that the warm-up goes on.
func (in *Inputs) decideAudit(d *Decision, shut bool) (serves bool) {
	cfg, v, t := in.Config, in.Views, &AuditDecision{}
	own := v.Own // that audits go by
	if shut {
		own.Op = 0 // nothing is served: the audit rate is that without a certificate
		own.Infeasible = own.Infeasible || d.Reason == reasonLowAgreement
	} else if !v.Own.Serves() {
		t.Cautious, t.Warmup = v.warmup(cfg)
	}
	warms := t.Warmup && v.Own.Warmup.HasOutcomes()
	fullRange := cfg.Risk.Rates.FullRange
	if in.All {
		fullRange = 1
	}
	t.Own = v.Own.Decide(in.Key, risk.Sampling{Rate: v.auditRate(&cfg.Risk, own, warms, in.All), FullRange: fullRange}, in.Draw)
	d.Audit, d.Accept.Threshold = t, accept.Nats(t.Own.Threshold)
	if t.Warmup {
		d.Accept.Threshold = accept.Nats(t.Cautious)
	}
	return cfg.Mode == ModeRisk && !shut && (v.Own.Serves() || warms)
}

// AuditDecision says how one request of the modes risk and shadow is judged: the thresholds for its draft, and whether
// the draft is audited.
type AuditDecision struct {
	Own    risk.Decision
	Shadow bool // the target answers; a draft is made in the background

	Warmup   bool    // it goes by the threshold of the warm-up: nothing is certified. With Shadow, its audit counts for the warm-up
	Cautious float64 // that threshold
}

// Floor returns the least score at which a draft is of interest to an audit.
func (a *AuditDecision) Floor() float64 {
	floor := math.Inf(1)
	if a.Own.Audited {
		floor = a.Own.Floor
	}
	if a.Warmup {
		floor = min(floor, a.Cautious)
	}
	return floor
}

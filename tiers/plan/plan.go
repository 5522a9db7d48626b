// Package plan decides how a request is answered. It holds pure functions of values, in two steps:
//
//   - When a request arrives, [Make] says what the settings, the request and the engines allow: a [Plan]. The key of the
//     response cache is made from it and the settings ([Plan.CacheTier]), so that nothing else can be part of it.
//   - When nobody has the answer yet, [Decide] chooses, once: it takes the plan with prices, statistics, evidence and load,
//     and returns a [Decision].
//
// Neither is ever changed. What happens on the way is recorded beside it (tiers.Receipt).
package plan

import (
	"math"
	"strings"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// Tier is the role of a pool for a route, and what an answer came from.
type Tier string

// The tiers. A request demands auto, draft or target; an answer is draft,
// target, mixed or fallback.
const (
	Auto     Tier = "auto"
	Draft    Tier = "draft"
	Target   Tier = "target"
	Mixed    Tier = "mixed"
	Fallback Tier = "fallback" // a hosted pool, which is not the operator's own
)

// Facts are the inputs of a plan.
type Facts struct {
	Request       *openai.Request
	Variant       string // the target pool, if it is not the route's pool in force; "" otherwise
	Revisions     string // of the weights of draft and target, as the configuration names them; "" if it names none
	Demanded      Tier
	HasDraft      bool // the route has a draft pool
	SameTokenizer bool // the configuration says that its pools share tokenizer and chat template

	EvidenceTenant string              // the tenant for which a promise of its own is kept; "": all tenants together
	Draft, Target  *probe.Capabilities // what the pools' engines support; nil: unknown
	TargetEngine   dialect.Kind        // of the target's engines until they are probed; "": not known
}

// sameTokens reports whether draft ids are valid for the target: as the engines were probed, and until then as the
// configuration says.
func (f Facts) sameTokens() bool {
	if same, known := probe.SameTokens(f.Draft, f.Target); known {
		return same
	}
	return f.SameTokenizer
}

// Plan says how a request may be answered by its settings and by what the engines can do.
type Plan struct {
	Tier    Tier       // Draft: through the cascade, or only the draft pool if the client demands it; Target: the target alone
	Judged  bool       // the draft is judged, and the target answers if it is rejected
	Reason  string     // why it is not judged: the reason in "X-Acceptance: bypassed;reason=…"
	Mode    Mode       // the mode by which the draft is judged
	Whole   bool       // nothing is released before the whole draft was judged
	Calls   bool       // the draft may call tools: it is requested in one piece
	Checked bool       // the target checks the whole draft before it is served
	Rule    VerifyRule // mode verify: by which rule it does
	Scorer  Scorer     // how the target checks it
	Auditor Scorer     // modes risk, shadow and confidence: how the target labels an audited draft, or checks a served one
	Resume  Resume     // how the target can continue a part of the draft
}

// CanResume reports whether the target can continue a part of the draft.
func (p Plan) CanResume() bool { return p.Resume != resumeNever }

// CacheTier is what the key of the response cache says of how an answer is made: the mode, the label and the bound by which
// drafts are judged, or the tier that answers alone. A threshold, the version of a score, prices and load are no part of it.
func (p Plan) CacheTier(cfg *Config) string {
	if p.Judged {
		return string(Auto) + " " + cfg.fingerprint()
	}
	return string(p.Tier)
}

// MayServeUnchecked reports whether a draft may be served without a check by the target.
func (p Plan) MayServeUnchecked() bool {
	return p.Judged && !p.Checked && p.Mode != ModeShadow
}

// Make says how a request may be answered. The first rule that matches wins.
func Make(cfg Config, f Facts) Plan {
	r := f.Request
	if f.Demanded == Draft && f.HasDraft {
		return Plan{Tier: Draft, Reason: "demanded"}
	}
	if reason := bypassReason(cfg, f); reason != "" {
		return Plan{Tier: Target, Reason: reason}
	}
	p := Plan{Tier: Draft, Judged: true, Mode: cfg.Mode, Whole: !r.Stream, Calls: r.Tools, Resume: resumeOf(f)}
	p.Whole = p.Whole || !p.CanResume() || !cfg.MidstreamFailover // nothing is released that the target would have to continue
	return p.withCheck(cfg, f)
}

// withCheck decides when and how the target checks the draft.
func (p Plan) withCheck(cfg Config, f Facts) Plan {
	scorer, missing := ScorerFor(f)
	p.Scorer = scorer
	switch {
	case cfg.Mode.Audited():
		if p.Auditor, missing = AuditorFor(cfg, f); missing != "" {
			return Plan{Tier: Target, Reason: missing}
		}
		if p.Calls && p.Auditor != ScorerIDs {
			return Plan{Tier: Target, Reason: "tools"} // calls have no text that could be audited
		}
		fallthrough
	case cfg.Mode == ModeConfidence:
		if p.Auditor == ScorerNone {
			p.Auditor, _ = AuditorFor(cfg, f) // without one, served drafts cannot be checked
		}
		p.Scorer = ScorerNone
		return p
	case missing != "":
		return Plan{Tier: Target, Reason: missing}
	case p.Calls && scorer != ScorerIDs:
		return Plan{Tier: Target, Reason: "tools"} // calls have no text that could be scored or asked about
	}
	p.Whole, p.Checked, p.Rule = true, true, RuleLenient
	if cfg.IsExact() {
		p.Rule = RuleExact
	}
	return p
}

// bypassReason returns why a request goes straight to the target, or "".
func bypassReason(cfg Config, f Facts) string {
	r := f.Request
	switch {
	case f.Demanded == Target:
		return "demanded"
	case !f.HasDraft:
		return "no_draft_pool"
	case cfg.Mode == ModeOff && cfg.ByApplication:
		return "application_off"
	case cfg.Mode == ModeOff:
		return "mode_off"
	case (cfg.Mode.Audited() || cfg.Mode == ModeConfidence) && f.Draft != nil && f.Draft.Unscored:
		return "draft_without_logprobs"
	case cfg.Mode.Audited() && f.Draft == nil:
		return "draft_unprobed" // without a probe the evidence's models are unknown
	case !r.SinglePlain:
		return "prompt_kind"
	case r.Logprobs:
		return "logprobs"
	case r.N > 1:
		return "n"
	case r.Continues:
		return "continues"
	case r.HasSeed && r.Temperature > 0:
		return "seed"
	case r.Penalties && (r.Stream || cfg.IsExact()):
		return "penalties" // rule exact: scores do not include penalties
	case cfg.IsExact() && r.Temperature > 0:
		return "sampled" // which of several tokens a target would draw cannot be checked
	case r.MinTokens && len(r.Stop) > 0:
		return "min_tokens" // engines ignore stop strings before min_tokens; the gateway's matcher does not count tokens
	case r.Extras:
		return "output_fields"
	case r.PromptTokens > cfg.MaxPromptTokens:
		return "prompt_length"
	}
	return ""
}

// Scorer says how the target checks a draft.
type Scorer string

// The scorers.
const (
	ScorerNone  Scorer = ""
	ScorerIDs   Scorer = "ids"   // it scores the draft's own tokens
	ScorerText  Scorer = "text"  // it scores the draft's text in its own tokens, because the tokenizers differ
	ScorerJudge Scorer = "judge" // it is asked in words whether the answer is correct
)

// ScorerFor returns how the target can score drafts, or the capability that it lacks for that.
func ScorerFor(f Facts) (s Scorer, missing string) {
	same, known := probe.SameTokens(f.Draft, f.Target)
	switch {
	case f.Target == nil:
		return ScorerNone, "target_unprobed"
	case f.Target.Scoring == "":
		return ScorerNone, "target_without_scoring"
	case known && same && f.Draft.TokenIDs && f.Draft.MissingReason(probe.MissingPromptIDs) == "":
		return ScorerIDs, ""
	case f.Target.MissingReason(probe.MissingTokenize) == "" && !f.Request.Rendered():
		return ScorerText, ""
	}
	return ScorerNone, "tokenizers_differ"
}

// AuditorFor returns how the target can label audited drafts, or the capability that it lacks. Evidence is kept by it, so
// what is not known yet is not taken for missing.
func AuditorFor(cfg Config, f Facts) (s Scorer, missing string) {
	s, missing = ScorerFor(f)
	switch label := cfg.Risk.Label; {
	case label == LabelExact:
		return s, missing
	case label != LabelJudge && label != LabelRegenerate && (missing == "" || strings.HasSuffix(missing, "_unprobed")):
		return s, missing
	case f.Target == nil:
		return ScorerNone, "target_unprobed"
	case f.Target.MissingReason(probe.MissingJudge) == "":
		return ScorerJudge, ""
	case label == LabelJudge:
		return ScorerNone, "target_without_judge"
	case label == LabelRegenerate:
		return ScorerNone, "" // then a draft is good only if the target's answer is the same
	}
	return s, missing
}

// ModeState says whether a route's engines support a mode.
type ModeState struct {
	Mode    Mode
	Missing string // reason by which requests bypass the draft; "": the mode works
	Reason  string // the same as a sentence
}

// MissingReason returns a sentence for a plan's reason that comes from a missing capability.
func (f Facts) MissingReason(reason, target string) string {
	if reason == "draft_unprobed" {
		return "the draft's engines were not asked yet"
	}
	what := map[string]string{
		"target_unprobed": probe.MissingScoring, "target_without_scoring": probe.MissingScoring,
		"target_without_judge": probe.MissingJudge, "tokenizers_differ": probe.MissingTokenize,
	}[reason]
	why := f.Target.MissingReason(what)
	if reason == "tokenizers_differ" && why == "" {
		why = "the pools' tokenizers or templates differ"
	}
	return "pool " + target + ": " + why
}

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

// Package plan decides how a request is answered, before anything is sent. It holds pure functions of the settings, the
// request, the engines' capabilities, prices and evidence. Start at [Make].
//
// A [Plan] is made once and never changed. The progress of a request is recorded elsewhere (tiers/receipt).
package plan

import (
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// Plan says how a request is answered. It is decided once, before anything is sent.
type Plan struct {
	Tier     Tier             // Draft: through the cascade, or only the draft pool if the client demands it; Target: the target alone
	Judged   bool             // the draft is judged, and the target answers if it is rejected
	Reason   string           // why it is not judged: the reason in "X-Acceptance: bypassed;reason=…"
	Mode     Mode             // the mode by which the draft is judged
	Whole    bool             // nothing is released before the whole draft was judged
	Calls    bool             // the draft may call tools: it is requested in one piece
	Checked  bool             // the target checks the whole draft before it is served
	Rule     VerifyRule       // mode verify: by which rule it does
	Scorer   Scorer           // how the target checks it
	Auditor  Scorer           // modes risk, shadow and confidence: how the target labels an audited draft, or checks a served one
	Estimate economy.Estimate // expected cost; zero without prices

	Resume Resume // how the target can continue a part of the draft
}

// CanResume reports whether the target can continue a part of the draft.
func (p Plan) CanResume() bool { return p.Resume != resumeNever }

// MayServeUnchecked reports whether a draft may be served without a check by the target.
func (p Plan) MayServeUnchecked() bool {
	return p.Judged && !p.Checked && p.Mode != ModeShadow
}

// Make decides how to answer a request. The first rule that matches wins. [Plan.Weigh] then decides by cost.
func Make(cfg Config, f Facts) Plan {
	r := f.Request
	if f.Demanded == Draft && f.HasDraft {
		return Plan{Tier: Draft, Reason: "demanded"}
	}
	if reason := bypassReason(cfg, f); reason != "" {
		return Plan{Tier: Target, Reason: reason}
	}
	p := Plan{Tier: Draft, Judged: true, Mode: cfg.Mode, Whole: !r.Stream, Calls: r.Tools, Resume: resumeOf(f)}
	p.Whole = p.Whole || !p.CanResume() // nothing is released that the target would have to continue
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
	case cfg.Mode == ModeOff:
		return "mode_off"
	case (cfg.Mode.Audited() || cfg.Mode == ModeConfidence) && f.Draft != nil && f.Draft.Unscored:
		return "draft_without_logprobs"
	case cfg.Mode.Audited() && f.Draft.Pending(probe.MissingLogprobs):
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

// Shape returns the request as package economy needs it.
func (p Plan) Shape(cfg Config, r *openai.Request) economy.Shape {
	return economy.Shape{
		Prompt: r.PromptTokens, MaxOutput: r.Limit(), Holdback: cfg.HoldbackTokens,
		Whole: p.Whole, Scored: p.Checked,
	}
}

// Weights are the inputs of [Plan.Weigh].
type Weights struct {
	Prices   economy.Prices      // of the route
	Expected economy.Expectation // statistics of the request's traffic class
	Draw     float64             // random number from [0, 1)
}

// Weigh drops the draft if it is not expected to save cost. A plan without a judged draft is returned unchanged.
func (p Plan) Weigh(cfg Config, r *openai.Request, w Weights) Plan {
	if !p.Judged {
		return p
	}
	sums, reason := economy.Decide(cfg.Economy, w.Prices, p.Shape(cfg, r), w.Expected, w.Draw)
	if reason != "" {
		return Plan{Tier: Target, Reason: reason, Mode: p.Mode, Whole: p.Whole, Calls: p.Calls, Auditor: p.Auditor, Estimate: sums}
	}
	p.Estimate = sums
	return p
}

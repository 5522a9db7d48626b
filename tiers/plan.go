package tiers

import "github.com/foregate/foregate/tiers/openai"

// Tier is the role of a pool for a route, and what an answer came from.
type Tier string

// The tiers. A request demands auto, draft or target; an answer is draft,
// target or mixed.
const (
	Auto   Tier = "auto"
	Draft  Tier = "draft"
	Target Tier = "target"
	Mixed  Tier = "mixed"
)

// resume is how the target can carry on from a part of a draft.
type resume uint8

const (
	resumeNever resume = iota // only from scratch
	resumeText                // by text: the accepted words as the start of the answer
	resumeIDs                 // by token ids: exact
)

// Plan is how a request will be answered. It is decided once, before anything
// is sent.
type Plan struct {
	Tier   Tier   // Draft: through the cascade, or where demanded straight from the draft; Target: straight to it
	Judged bool   // the draft is judged, and escalates when it does not hold
	Reason string // why it is not judged: the reason in "X-Acceptance: bypassed;reason=…"
	Whole  bool   // nothing is released before the whole draft was judged

	resume resume
}

// Resumes reports whether the target can carry on from a part of the draft.
func (p Plan) Resumes() bool { return p.resume != resumeNever }

// Facts are what a plan is made from.
type Facts struct {
	Request       *openai.Request
	Demanded      Tier
	HasDraft      bool // the route has a draft pool
	SameTokenizer bool // its pools share tokenizer and chat template
}

// PlanFor decides how to answer: a pure function of the settings and the request.
// The first rule that matches wins.
func PlanFor(cfg Config, f Facts) Plan {
	r := f.Request
	if f.Demanded == Draft && f.HasDraft {
		return Plan{Tier: Draft, Reason: "demanded"}
	}
	if reason := bypass(cfg, f); reason != "" {
		return Plan{Tier: Target, Reason: reason}
	}
	p := Plan{Tier: Draft, Judged: true, Whole: r.Structured || !r.Stream}
	switch {
	case r.Penalties || r.Structured:
		// A continuation would count penalties from its own start, and a grammar
		// begins anew at the first generated token: such answers are never switched.
		p.Whole = true
	case f.SameTokenizer:
		p.resume = resumeIDs
	default:
		p.resume = resumeText
	}
	return p
}

// bypass names why a request goes straight to the target, "" when it does not.
func bypass(cfg Config, f Facts) string {
	r := f.Request
	switch {
	case f.Demanded == Target:
		return "demanded"
	case !f.HasDraft:
		return "no_draft_pool"
	case cfg.Mode == ModeOff:
		return "mode_off"
	case !r.SinglePlain:
		return "prompt_kind"
	case r.Tools:
		return "tools"
	case r.Logprobs:
		return "logprobs"
	case r.N > 1:
		return "n"
	case r.Continues:
		return "continues"
	case r.HasSeed && r.Temperature > 0:
		return "seed"
	case r.Penalties && r.Stream:
		return "penalties"
	case r.MinTokens && len(r.Stop) > 0:
		return "min_tokens" // an engine ignores stop strings before them; the gateway's matcher does not count
	case r.Extras:
		return "output_fields"
	case r.PromptTokens > cfg.MaxPrompt:
		return "prompt_length"
	}
	return ""
}

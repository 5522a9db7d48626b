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
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
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

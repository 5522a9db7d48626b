package plan

import (
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// Resume says how the target can continue a part of a draft.
type Resume uint8

// The ways.
const (
	resumeNever Resume = iota // not at all
	ResumeText                // by text: the accepted words as the start of the answer
	ResumeIDs                 // by token ids: exact
)

// settled are the fields that a continuation by ids does not need: they concern the prompt, whose ids are known, the
// size of chunks, or nothing that an engine does.
var settled = []string{
	"add_special_tokens", "truncate_prompt_tokens", "truncation_side", "reasoning_effort", "stream_interval",
	"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls",
}

// continuesExactly reports whether a continuation by ids honours all fields of the request.
func continuesExactly(r *openai.Request) bool { return !r.HasBeside(openai.SamplingFields, settled) }

// resumeOf returns how the target can continue a part of a draft.
func resumeOf(f Facts) Resume {
	r, target := f.Request, f.targetDialect()
	switch {
	case r.Penalties || r.Structured || r.Tools:
		// A continuation would count penalties from its own start, a grammar begins anew at the
		// first generated token, and half a call is none: such answers are never switched.
		return resumeNever
	case target.Members.IDPrompts && f.sameTokens() && (f.Target == nil || f.Target.MissingReason(probe.MissingContinue) == "") && continuesExactly(r):
		return ResumeIDs
	case !continuesText(r, f.Target, f.TargetEngine):
		return resumeNever
	}
	return ResumeText
}

// targetDialect returns the dialect of the target's engines, as they were probed, or until then by their kind.
func (f Facts) targetDialect() *dialect.Dialect {
	if f.Target == nil {
		return dialect.Of(f.TargetEngine)
	}
	return dialectOf(f.Target)
}

// dialectOf returns the dialect of a pool's engines; until they are probed they are taken for vLLM.
func dialectOf(c *probe.Capabilities) *dialect.Dialect {
	if c == nil {
		return dialect.Of(dialect.Auto)
	}
	return dialect.Of(c.Engine)
}

// continuesText reports whether a pool's engines, of a kind until they are probed, continue the text of an answer to a
// request: of a completion all do, it is a longer prompt.
func continuesText(r *openai.Request, c *probe.Capabilities, kind dialect.Kind) bool {
	if c == nil {
		c = &probe.Capabilities{Engine: kind}
	}
	d := dialectOf(c)
	if r.AnswerBegun && d.ContinueBy != dialect.ContinueByFlags {
		return false // the engine continues what the client has begun, and its answer may repeat that
	}
	return r.Kind == openai.Completion || d.Continues(c.Continue) != dialect.ContinueNot
}

// CanContinue reports whether another backend of a pool with these capabilities, or until they are known of this kind,
// can continue the answer from its text: the engines do that, the answer is plain text, and no field counts from the
// answer's beginning or would restart at the cut.
func CanContinue(r *openai.Request, c *probe.Capabilities, kind dialect.Kind) bool {
	return continuesText(r, c, kind) && r.SinglePlain && r.N == 1 && !r.Tools && !r.Structured && !r.Logprobs && !r.Penalties && !r.Continues && !r.Extras &&
		!(r.HasSeed && r.Temperature > 0)
}

package plan

import "github.com/foregate/foregate/tiers/openai"

// Sampling are the fields that a continuation by ids keeps as the client sent them. Penalties are
// among them where they are named as none: an engine may have others by default.
var Sampling = []string{
	"temperature", "top_p", "top_k", "min_p", "seed", "stop_token_ids", "ignore_eos",
	"frequency_penalty", "presence_penalty", "repetition_penalty",
	"skip_special_tokens", "spaces_between_special_tokens", "user",
}

// settled are the fields that a continuation by ids has no use for: they are about the prompt,
// whose ids are known, about how chunks are cut, or about nothing that an engine does.
var settled = []string{
	"add_special_tokens", "truncate_prompt_tokens", "truncation_side", "reasoning_effort", "stream_interval",
	"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls",
}

// ContinuesExactly reports whether a continuation by ids asks for all that the request does.
func ContinuesExactly(r *openai.Request) bool { return !r.HasBeside(Sampling, settled) }

// CanContinue reports whether an answer to the request can be carried on with by another
// backend that is given what there is of it: plain text, of which nothing counts from the
// beginning or begins anew at the cut.
func CanContinue(r *openai.Request) bool {
	return r.SinglePlain && r.N == 1 && !r.Tools && !r.Structured && !r.Logprobs && !r.Penalties && !r.Continues && !r.Extras &&
		!(r.HasSeed && r.Temperature > 0)
}

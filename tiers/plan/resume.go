package plan

import "github.com/foregate/foregate/tiers/openai"

// Sampling are the fields that a continuation by ids sends as the client sent them. Penalties are among them if the
// client set them to none, because an engine may have other defaults.
var Sampling = []string{
	"temperature", "top_p", "top_k", "min_p", "seed", "stop_token_ids", "ignore_eos",
	"frequency_penalty", "presence_penalty", "repetition_penalty",
	"skip_special_tokens", "spaces_between_special_tokens", "user",
}

// settled are the fields that a continuation by ids does not need: they concern the prompt, whose ids are known, the
// size of chunks, or nothing that an engine does.
var settled = []string{
	"add_special_tokens", "truncate_prompt_tokens", "truncation_side", "reasoning_effort", "stream_interval",
	"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls",
}

// ContinuesExactly reports whether a continuation by ids honours all fields of the request.
func ContinuesExactly(r *openai.Request) bool { return !r.HasBeside(Sampling, settled) }

// CanContinue reports whether another backend can continue the answer from its text: the answer is plain text, and no
// field counts from the answer's beginning or would restart at the cut.
func CanContinue(r *openai.Request) bool {
	return r.SinglePlain && r.N == 1 && !r.Tools && !r.Structured && !r.Logprobs && !r.Penalties && !r.Continues && !r.Extras &&
		!(r.HasSeed && r.Temperature > 0)
}

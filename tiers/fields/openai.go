package fields

// ofOpenAI are the members of requests to POST /v1/chat/completions and POST /v1/completions in OpenAI's API
// reference, as of 2026.
var ofOpenAI = setOf(
	"model", "messages", "prompt", "suffix", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "best_of",
	"stop", "seed", "temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "echo",
	"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "response_format", "reasoning_effort", "verbosity",
	"modalities", "audio", "prediction", "web_search_options", "metadata", "store", "service_tier", "user", "safety_identifier",
	"prompt_cache_key", "prompt_cache_retention",
)

// binding are members of single engines without which an answer would not be what the client asked for: an engine that
// does not know them must refuse the request, not ignore them.
var binding = setOf(
	"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "regex", "ebnf", "grammar", "structural_tag",
	"continue_final_message", "add_generation_prompt", "prompt_embeds", "use_beam_search", "bad_words", "allowed_token_ids",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Portable reports whether a member is sent to an engine of which only OpenAI's API is known: the API has it, or the
// answer would be another one without it. Every other member is a hint or a setting of single engines.
func Portable(name string) bool { return ofOpenAI[name] || binding[name] }

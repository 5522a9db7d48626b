package fields

import (
	"slices"
	"strings"
)

// Verdict says what happens to a field of a request.
type Verdict uint8

// The verdicts. Every field that is not in [Table] is forwarded.
const (
	Forwarded Verdict = iota // unchanged, to drafts and targets
	Target                   // unchanged; the target answers, unless the value has no effect
	Stripped                 // never forwarded; the request continues without it
	Refused                  // 400 unless its value has no effect, or the route lists it in allow_fields
	Forbidden                // 400 unless its value has no effect; no route can allow it
)

// String is the verdict in one word.
func (v Verdict) String() string {
	return [...]string{"forwarded", "target", "stripped", "refused", "forbidden"}[v]
}

// Field is one row of [Table].
type Field struct {
	Name    string
	Verdict Verdict
	Engines string // the engines that know the field
	Effect  string // what an engine does with it; a phrase without a subject
	Prompt  bool   // if the target answers because of it: it adds nothing to the answer
}

// The engines, as [Field.Engines] names them.
const (
	vllm     = "vLLM"
	sglang   = "SGLang"
	both     = "vLLM, SGLang"
	llamacpp = "llama.cpp"
)

// Kwargs is the field with the arguments of the chat template. Each member is allowed separately.
const Kwargs = "chat_template_kwargs"

// Table has every field that is not simply forwarded. One table is enough for the engines that it names: they ignore
// fields that they do not know, so removing a field of another engine loses nothing. For others see [Portable].
var Table = []Field{
	// Decided by the gateway or the operator of an engine.
	{Name: "priority", Verdict: Stripped, Engines: both, Effect: "decides the order of requests; the gateway sends its own"},
	{Name: "request_id", Verdict: Stripped, Engines: vllm, Effect: "names the request in the engine"},
	{Name: "rid", Verdict: Stripped, Engines: sglang, Effect: "names the request in the engine"},
	{Name: "session_id", Verdict: Stripped, Engines: both, Effect: "binds the request to a session"},
	{Name: "conversation_id", Verdict: Stripped, Engines: sglang, Effect: "binds the request to a session"},
	{Name: "routing_key", Verdict: Stripped, Engines: sglang, Effect: "decides which worker takes the request"},
	{Name: "cache_salt", Verdict: Stripped, Engines: both, Effect: "says with whom cached prefixes are shared; the gateway sends its own"},
	{Name: "extra_key", Verdict: Stripped, Engines: sglang, Effect: "says with whom cached prefixes are shared"},
	{Name: "kv_transfer_params", Verdict: Stripped, Engines: vllm, Effect: "names a host from which the engine reads KV blocks"},
	{Name: "ec_transfer_params", Verdict: Stripped, Engines: vllm, Effect: "names a host from which the engine reads encoder outputs"},
	{Name: "bootstrap_host", Verdict: Stripped, Engines: sglang, Effect: "names a host that the engine connects to"},
	{Name: "bootstrap_port", Verdict: Stripped, Engines: sglang, Effect: "names a port that the engine connects to"},
	{Name: "bootstrap_room", Verdict: Stripped, Engines: sglang, Effect: "names the transfer whose KV blocks the engine reads"},
	{Name: "bootstrap_pair_key", Verdict: Stripped, Engines: sglang, Effect: "names the transfer whose KV blocks the engine reads"},
	{Name: "data_parallel_rank", Verdict: Stripped, Engines: both, Effect: "decides which rank takes the request"},
	{Name: "routed_dp_rank", Verdict: Stripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "disagg_prefill_dp_rank", Verdict: Stripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "data_parallel_rank_decode", Verdict: Stripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "vllm_xargs", Verdict: Stripped, Engines: vllm, Effect: "hands arguments to connectors and plugins"},
	{Name: "custom_labels", Verdict: Stripped, Engines: sglang, Effect: "adds labels to the engine's metrics"},
	{Name: "no_logs", Verdict: Stripped, Engines: sglang, Effect: "keeps the request out of the engine's log"},
	{Name: "log_metrics", Verdict: Stripped, Engines: sglang, Effect: "keeps the request out of the engine's metrics"},
	{Name: "n_predict", Verdict: Stripped, Engines: llamacpp, Effect: "limits the answer in place of max_tokens"},
	{Name: "n_cmpl", Verdict: Stripped, Engines: llamacpp, Effect: "asks for several answers in place of n"},
	{Name: "id_slot", Verdict: Stripped, Engines: llamacpp, Effect: "decides which slot takes the request, and whose prefix it replaces"},
	{Name: "cache_prompt", Verdict: Stripped, Engines: llamacpp, Effect: "says whether the slot keeps the prefix"},
	{Name: "n_cache_reuse", Verdict: Stripped, Engines: llamacpp, Effect: "says how the cached prefix of a slot is reused"},
	{Name: "n_keep", Verdict: Stripped, Engines: llamacpp, Effect: "says what of the prompt is dropped when the context is full"},
	{Name: "n_discard", Verdict: Stripped, Engines: llamacpp, Effect: "says how much of the prompt is dropped when the context is full"},
	{Name: "t_max_prompt_ms", Verdict: Stripped, Engines: llamacpp, Effect: "ends the prompt after a time"},
	{Name: "t_max_predict_ms", Verdict: Stripped, Engines: llamacpp, Effect: "ends the answer after a time, as if it were whole"},
	{Name: "speculative.n_min", Verdict: Stripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "speculative.n_max", Verdict: Stripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "speculative.p_min", Verdict: Stripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "backend_sampling", Verdict: Stripped, Engines: llamacpp, Effect: "decides where the engine samples"},
	{Name: "n_probs", Verdict: Stripped, Engines: llamacpp, Effect: "lists any number of alternatives; logprobs lists some"},
	{Name: "post_sampling_probs", Verdict: Stripped, Engines: llamacpp, Effect: "lists other alternatives than logprobs"},
	{Name: "return_tokens", Verdict: Stripped, Engines: llamacpp, Effect: "adds ids to the answer"},
	{Name: "return_progress", Verdict: Stripped, Engines: llamacpp, Effect: "adds events about the prompt to the answer"},
	{Name: "timings_per_token", Verdict: Stripped, Engines: llamacpp, Effect: "adds timings to each event"},
	{Name: "response_fields", Verdict: Stripped, Engines: llamacpp, Effect: "leaves members out of the answer, its usage too"},
	{Name: "chat_format", Verdict: Stripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "grammar_lazy", Verdict: Stripped, Engines: llamacpp, Effect: "says when a grammar begins to hold; the engine sets it"},
	{Name: "grammar_triggers", Verdict: Stripped, Engines: llamacpp, Effect: "says when a grammar begins to hold; the engine sets it"},
	{Name: "preserved_tokens", Verdict: Stripped, Engines: llamacpp, Effect: "says which tokens are shown as text; the engine sets it"},
	{Name: "stream_interval", Verdict: Stripped, Engines: vllm, Effect: "says how many tokens come in one event"},
	{Name: "routed_experts_prompt_start", Verdict: Stripped, Engines: vllm, Effect: "says which of the model's inner states come back, which none do"},
	{Name: "verbose", Verdict: Stripped, Engines: llamacpp, Effect: "adds the prompt with what the template added, and the engine's settings"},
	{Name: "sse_ping_interval", Verdict: Stripped, Engines: llamacpp, Effect: "says how often a silent stream has a comment; the gateway sends its own"},
	{Name: "speculative.types", Verdict: Stripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "generation_prompt", Verdict: Stripped, Engines: llamacpp, Effect: "says what the template ends with; the engine sets it"},
	{Name: "parse_tool_calls", Verdict: Stripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "chat_parser", Verdict: Stripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "reasoning_control", Verdict: Stripped, Engines: llamacpp, Effect: "lets another request end the thinking"},
	{Name: "reasoning_budget_start_tag", Verdict: Stripped, Engines: llamacpp, Effect: "says where thinking begins; the engine sets it"},
	{Name: "reasoning_budget_end_tag", Verdict: Stripped, Engines: llamacpp, Effect: "says where thinking ends; the engine sets it"},
	{Name: "reasoning_budget_message", Verdict: Stripped, Engines: llamacpp, Effect: "is put at the end of the thinking; the operator sets it"},

	// Fields that only the target can serve as they are meant.
	{Name: "echo", Verdict: Target, Engines: both, Effect: "puts the prompt before the answer, with logprobs those of the prompt, too"},
	{Name: "watermarking", Verdict: Target, Engines: vllm, Effect: "marks the answer, which a draft pool may not do", Prompt: true},
	{Name: "repetition_detection", Verdict: Target, Engines: vllm, Effect: "ends an answer that repeats itself, with a finish_reason of its own", Prompt: true},
	{Name: "thinking_token_budget", Verdict: Target, Engines: vllm, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "thinking_budget_tokens", Verdict: Target, Engines: llamacpp, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "reasoning_budget_tokens", Verdict: Target, Engines: llamacpp, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "truncate_prompt_tokens", Verdict: Target, Engines: vllm, Effect: "cuts the prompt, which is then not the one that is judged", Prompt: true},
	{Name: "truncation_side", Verdict: Target, Engines: vllm, Effect: "says where the prompt is cut", Prompt: true},
	{Name: "return_tokens_as_token_ids", Verdict: Target, Engines: vllm, Effect: "writes ids in place of the tokens of logprobs, by which drafts are judged"},
	{Name: "repeat_penalty", Verdict: Target, Engines: llamacpp, Effect: "makes tokens less probable that occurred, which the target's scores of a draft do not see", Prompt: true},
	{Name: "dry_multiplier", Verdict: Target, Engines: llamacpp, Effect: "makes repeated sequences less probable, which the target's scores of a draft do not see", Prompt: true},
	{Name: "n_indent", Verdict: Target, Engines: llamacpp, Effect: "ends the answer at a line that is indented less", Prompt: true},

	// Fields that run code, load files, or read data that is not the tenant's.
	{Name: "custom_logit_processor", Verdict: Forbidden, Engines: sglang, Effect: "runs code that the client wrote"},
	{Name: "custom_params", Verdict: Forbidden, Engines: sglang, Effect: "hands arguments to code that the client wrote"},
	{Name: "logits_processors", Verdict: Forbidden, Engines: vllm, Effect: "imports and runs code by its name"},
	{Name: "extra_args", Verdict: Forbidden, Engines: vllm, Effect: "hands arguments to connectors and plugins"},
	{Name: "lora_path", Verdict: Forbidden, Engines: sglang, Effect: "answers with other weights, from a path of the client's choosing"},
	{Name: "lora", Verdict: Forbidden, Engines: llamacpp, Effect: "answers with other weights"},
	{Name: "return_hidden_states", Verdict: Forbidden, Engines: sglang, Effect: "gives back the model's inner states, and rebuilds CUDA graphs"},
	{Name: "mm_payload", Verdict: Forbidden, Engines: vllm, Effect: "hands over media that the gateway cannot check"},
	{Name: "return_mm_kwargs", Verdict: Forbidden, Engines: vllm, Effect: "gives back what the engine made of media"},
	{Name: "return_routed_experts", Verdict: Forbidden, Engines: both, Effect: "gives back the model's inner states"},
	{Name: "session_params", Verdict: Forbidden, Engines: sglang, Effect: "goes on from a session that may be another tenant's"},
	{Name: "previous_response_id", Verdict: Forbidden, Engines: both, Effect: "reads an answer from a store that does not know tenants"},
	{Name: "conversation", Verdict: Forbidden, Engines: both, Effect: "reads messages from a store that does not know tenants"},
	{Name: "background", Verdict: Forbidden, Engines: both, Effect: "goes on when the client has left, and is in no limit"},
	{Name: "previous_input_messages", Verdict: Forbidden, Engines: vllm, Effect: "replaces the prompt by messages that are not checked"},
	{Name: "input_embeds", Verdict: Forbidden, Engines: sglang, Effect: "replaces the prompt by numbers that are not checked"},
	{Name: "positional_embed_overrides", Verdict: Forbidden, Engines: sglang, Effect: "replaces parts of the prompt by unchecked numbers"},
	{Name: "features", Verdict: Forbidden, Engines: vllm, Effect: "hands over media that the gateway cannot check"},

	// Fields that return text that the gateway or the template added, or that cost much.
	{Name: "chat_template", Verdict: Refused, Engines: vllm, Effect: "runs a template that the client wrote", Prompt: true},
	{Name: Kwargs, Verdict: Refused, Engines: both, Effect: "hands arguments to the chat template", Prompt: true},
	{Name: "documents", Verdict: Refused, Engines: vllm, Effect: "adds documents to the prompt", Prompt: true},
	{Name: "media_io_kwargs", Verdict: Refused, Engines: vllm, Effect: "says how media are decoded", Prompt: true},
	{Name: "mm_processor_kwargs", Verdict: Refused, Engines: vllm, Effect: "hands arguments to the processor of media", Prompt: true},
	{Name: "prompt_embeds", Verdict: Refused, Engines: vllm, Effect: "decodes tensors that the client wrote", Prompt: true},
	{Name: "prompt_logprobs", Verdict: Refused, Engines: vllm, Effect: "gives back the prompt; much of it can end the engine"},
	{Name: "logprob_start_len", Verdict: Refused, Engines: sglang, Effect: "gives back the prompt"},
	{Name: "return_prompt_text", Verdict: Refused, Engines: vllm, Effect: "gives back the prompt with what the template added"},
	{Name: "enable_response_messages", Verdict: Refused, Engines: vllm, Effect: "gives back the prompt with what the template added"},
	{Name: "return_token_ids", Verdict: Refused, Engines: vllm, Effect: "gives back the prompt as tokens"},
	{Name: "return_prompt_token_ids", Verdict: Refused, Engines: sglang, Effect: "gives back the prompt as tokens"},
	{Name: "logprob_token_ids", Verdict: Refused, Engines: vllm, Effect: "gives logprobs of any tokens"},
	{Name: "token_ids_logprob", Verdict: Refused, Engines: sglang, Effect: "gives logprobs of any tokens"},
	{Name: "stop_regex", Verdict: Refused, Engines: sglang, Effect: "matches a pattern after each token; a slow one stops the engine"},
	{Name: "use_beam_search", Verdict: Refused, Engines: vllm, Effect: "generates many answers for one"},
}

// Kept are fields of engines that are forwarded to drafts, too, because they mean the same there: sampling, ends, and how
// tokens become text. vLLM uses return_token_offsets only where it renders prompts.
var Kept = strings.Fields(`
	top_k min_p min_tokens ignore_eos stop_token_ids include_stop_str_in_output repetition_penalty repeat_last_n dry_base
	dry_allowed_length dry_penalty_last_n dry_sequence_breakers length_penalty typical_p top_n_sigma xtc_probability
	xtc_threshold dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay min_keep
	samplers skip_special_tokens spaces_between_special_tokens add_special_tokens include_reasoning reasoning_format
	reasoning_in_content return_token_offsets`)

// Sampling are the fields that a continuation by ids sends as the client sent them. Penalties are among them if the
// client set them to none, because an engine may have other defaults.
var Sampling = []string{
	"temperature", "top_p", "top_k", "min_p", "seed", "stop_token_ids", "ignore_eos",
	"frequency_penalty", "presence_penalty", "repetition_penalty",
	"skip_special_tokens", "spaces_between_special_tokens", "user",
}

// byName is [Table] by name.
var byName = func() map[string]*Field {
	m := make(map[string]*Field, len(Table))
	for i := range Table {
		m[Table[i].Name] = &Table[i]
	}
	return m
}()

// Lookup returns the row of a field; the zero Field is forwarded.
func Lookup(name string) Field {
	if f, ok := byName[name]; ok {
		return *f
	}
	return Field{}
}

// expected are fields that the table refuses, but that a path needs.
var expected = map[string][]string{
	"/v1/rerank": {"documents"}, "/v2/rerank": {"documents"}, "/rerank": {"documents"},
	"/v1/score": {"documents"}, "/score": {"documents"},
}

// LookupIn returns the row of a field for a path.
func LookupIn(path, name string) Field {
	f := Lookup(name)
	if f.Verdict == Refused && slices.Contains(expected[path], name) {
		return Field{}
	}
	return f
}

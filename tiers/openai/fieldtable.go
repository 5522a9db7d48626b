package openai

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// FieldVerdict says what happens to a field of a request.
type FieldVerdict uint8

// The verdicts. Every field that is not in [FieldTable] is forwarded.
const (
	FieldForwarded FieldVerdict = iota // unchanged, to drafts and targets
	FieldTarget                        // unchanged; the target answers, unless the value has no effect
	FieldStripped                      // never forwarded; the request continues without it
	FieldRefused                       // 400 unless its value has no effect, or the route lists it in allow_fields
	FieldForbidden                     // 400 unless its value has no effect; no route can allow it
)

// String is the verdict in one word.
func (v FieldVerdict) String() string {
	return [...]string{"forwarded", "target", "stripped", "refused", "forbidden"}[v]
}

// Field is one row of [FieldTable].
type Field struct {
	Name    string
	Verdict FieldVerdict
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

// FieldTable has every field that is not simply forwarded. One table is enough for the engines that it names: they ignore
// fields that they do not know, so removing a field of another engine loses nothing. For others see [PortableField].
var FieldTable = []Field{
	// Decided by the gateway or the operator of an engine.
	{Name: "priority", Verdict: FieldStripped, Engines: both, Effect: "decides the order of requests; the gateway sends its own"},
	{Name: "request_id", Verdict: FieldStripped, Engines: vllm, Effect: "names the request in the engine"},
	{Name: "rid", Verdict: FieldStripped, Engines: sglang, Effect: "names the request in the engine"},
	{Name: "session_id", Verdict: FieldStripped, Engines: both, Effect: "binds the request to a session"},
	{Name: "conversation_id", Verdict: FieldStripped, Engines: sglang, Effect: "binds the request to a session"},
	{Name: "routing_key", Verdict: FieldStripped, Engines: sglang, Effect: "decides which worker takes the request"},
	{Name: "cache_salt", Verdict: FieldStripped, Engines: both, Effect: "says with whom cached prefixes are shared; the gateway sends its own"},
	{Name: "extra_key", Verdict: FieldStripped, Engines: sglang, Effect: "says with whom cached prefixes are shared"},
	{Name: "kv_transfer_params", Verdict: FieldStripped, Engines: vllm, Effect: "names a host from which the engine reads KV blocks"},
	{Name: "ec_transfer_params", Verdict: FieldStripped, Engines: vllm, Effect: "names a host from which the engine reads encoder outputs"},
	{Name: "bootstrap_host", Verdict: FieldStripped, Engines: sglang, Effect: "names a host that the engine connects to"},
	{Name: "bootstrap_port", Verdict: FieldStripped, Engines: sglang, Effect: "names a port that the engine connects to"},
	{Name: "bootstrap_room", Verdict: FieldStripped, Engines: sglang, Effect: "names the transfer whose KV blocks the engine reads"},
	{Name: "bootstrap_pair_key", Verdict: FieldStripped, Engines: sglang, Effect: "names the transfer whose KV blocks the engine reads"},
	{Name: "data_parallel_rank", Verdict: FieldStripped, Engines: both, Effect: "decides which rank takes the request"},
	{Name: "routed_dp_rank", Verdict: FieldStripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "disagg_prefill_dp_rank", Verdict: FieldStripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "data_parallel_rank_decode", Verdict: FieldStripped, Engines: sglang, Effect: "decides which rank takes the request"},
	{Name: "vllm_xargs", Verdict: FieldStripped, Engines: vllm, Effect: "hands arguments to connectors and plugins"},
	{Name: "custom_labels", Verdict: FieldStripped, Engines: sglang, Effect: "adds labels to the engine's metrics"},
	{Name: "no_logs", Verdict: FieldStripped, Engines: sglang, Effect: "keeps the request out of the engine's log"},
	{Name: "log_metrics", Verdict: FieldStripped, Engines: sglang, Effect: "keeps the request out of the engine's metrics"},
	{Name: "n_predict", Verdict: FieldStripped, Engines: llamacpp, Effect: "limits the answer in place of max_tokens"},
	{Name: "n_cmpl", Verdict: FieldStripped, Engines: llamacpp, Effect: "asks for several answers in place of n"},
	{Name: "id_slot", Verdict: FieldStripped, Engines: llamacpp, Effect: "decides which slot takes the request, and whose prefix it replaces"},
	{Name: "cache_prompt", Verdict: FieldStripped, Engines: llamacpp, Effect: "says whether the slot keeps the prefix"},
	{Name: "n_cache_reuse", Verdict: FieldStripped, Engines: llamacpp, Effect: "says how the cached prefix of a slot is reused"},
	{Name: "n_keep", Verdict: FieldStripped, Engines: llamacpp, Effect: "says what of the prompt is dropped when the context is full"},
	{Name: "n_discard", Verdict: FieldStripped, Engines: llamacpp, Effect: "says how much of the prompt is dropped when the context is full"},
	{Name: "t_max_prompt_ms", Verdict: FieldStripped, Engines: llamacpp, Effect: "ends the prompt after a time"},
	{Name: "t_max_predict_ms", Verdict: FieldStripped, Engines: llamacpp, Effect: "ends the answer after a time, as if it were whole"},
	{Name: "speculative.n_min", Verdict: FieldStripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "speculative.n_max", Verdict: FieldStripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "speculative.p_min", Verdict: FieldStripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "backend_sampling", Verdict: FieldStripped, Engines: llamacpp, Effect: "decides where the engine samples"},
	{Name: "n_probs", Verdict: FieldStripped, Engines: llamacpp, Effect: "lists any number of alternatives; logprobs lists some"},
	{Name: "post_sampling_probs", Verdict: FieldStripped, Engines: llamacpp, Effect: "lists other alternatives than logprobs"},
	{Name: "return_tokens", Verdict: FieldStripped, Engines: llamacpp, Effect: "adds ids to the answer"},
	{Name: "return_progress", Verdict: FieldStripped, Engines: llamacpp, Effect: "adds events about the prompt to the answer"},
	{Name: "timings_per_token", Verdict: FieldStripped, Engines: llamacpp, Effect: "adds timings to each event"},
	{Name: "response_fields", Verdict: FieldStripped, Engines: llamacpp, Effect: "leaves members out of the answer, its usage too"},
	{Name: "chat_format", Verdict: FieldStripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "grammar_lazy", Verdict: FieldStripped, Engines: llamacpp, Effect: "says when a grammar begins to hold; the engine sets it"},
	{Name: "grammar_triggers", Verdict: FieldStripped, Engines: llamacpp, Effect: "says when a grammar begins to hold; the engine sets it"},
	{Name: "preserved_tokens", Verdict: FieldStripped, Engines: llamacpp, Effect: "says which tokens are shown as text; the engine sets it"},
	{Name: "stream_interval", Verdict: FieldStripped, Engines: vllm, Effect: "says how many tokens come in one event"},
	{Name: "routed_experts_prompt_start", Verdict: FieldStripped, Engines: vllm, Effect: "says which of the model's inner states come back, which none do"},
	{Name: "verbose", Verdict: FieldStripped, Engines: llamacpp, Effect: "adds the prompt with what the template added, and the engine's settings"},
	{Name: "sse_ping_interval", Verdict: FieldStripped, Engines: llamacpp, Effect: "says how often a silent stream has a comment; the gateway sends its own"},
	{Name: "speculative.types", Verdict: FieldStripped, Engines: llamacpp, Effect: "tunes drafts of the engine's own"},
	{Name: "generation_prompt", Verdict: FieldStripped, Engines: llamacpp, Effect: "says what the template ends with; the engine sets it"},
	{Name: "parse_tool_calls", Verdict: FieldStripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "chat_parser", Verdict: FieldStripped, Engines: llamacpp, Effect: "decides how the answer is parsed; the engine sets it"},
	{Name: "reasoning_control", Verdict: FieldStripped, Engines: llamacpp, Effect: "lets another request end the thinking"},
	{Name: "reasoning_budget_start_tag", Verdict: FieldStripped, Engines: llamacpp, Effect: "says where thinking begins; the engine sets it"},
	{Name: "reasoning_budget_end_tag", Verdict: FieldStripped, Engines: llamacpp, Effect: "says where thinking ends; the engine sets it"},
	{Name: "reasoning_budget_message", Verdict: FieldStripped, Engines: llamacpp, Effect: "is put at the end of the thinking; the operator sets it"},

	// Fields that only the target can serve as they are meant.
	{Name: "echo", Verdict: FieldTarget, Engines: both, Effect: "puts the prompt before the answer, with logprobs those of the prompt, too"},
	{Name: "watermarking", Verdict: FieldTarget, Engines: vllm, Effect: "marks the answer, which a draft pool may not do", Prompt: true},
	{Name: "repetition_detection", Verdict: FieldTarget, Engines: vllm, Effect: "ends an answer that repeats itself, with a finish_reason of its own", Prompt: true},
	{Name: "thinking_token_budget", Verdict: FieldTarget, Engines: vllm, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "thinking_budget_tokens", Verdict: FieldTarget, Engines: llamacpp, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "reasoning_budget_tokens", Verdict: FieldTarget, Engines: llamacpp, Effect: "bounds the tokens of thinking, which drafts do not have", Prompt: true},
	{Name: "truncate_prompt_tokens", Verdict: FieldTarget, Engines: vllm, Effect: "cuts the prompt, which is then not the one that is judged", Prompt: true},
	{Name: "truncation_side", Verdict: FieldTarget, Engines: vllm, Effect: "says where the prompt is cut", Prompt: true},
	{Name: "return_tokens_as_token_ids", Verdict: FieldTarget, Engines: vllm, Effect: "writes ids in place of the tokens of logprobs, by which drafts are judged"},
	{Name: "repeat_penalty", Verdict: FieldTarget, Engines: llamacpp, Effect: "makes tokens less probable that occurred, which the target's scores of a draft do not see", Prompt: true},
	{Name: "dry_multiplier", Verdict: FieldTarget, Engines: llamacpp, Effect: "makes repeated sequences less probable, which the target's scores of a draft do not see", Prompt: true},
	{Name: "n_indent", Verdict: FieldTarget, Engines: llamacpp, Effect: "ends the answer at a line that is indented less", Prompt: true},

	// Fields that run code, load files, or read data that is not the tenant's.
	{Name: "custom_logit_processor", Verdict: FieldForbidden, Engines: sglang, Effect: "runs code that the client wrote"},
	{Name: "custom_params", Verdict: FieldForbidden, Engines: sglang, Effect: "hands arguments to code that the client wrote"},
	{Name: "logits_processors", Verdict: FieldForbidden, Engines: vllm, Effect: "imports and runs code by its name"},
	{Name: "extra_args", Verdict: FieldForbidden, Engines: vllm, Effect: "hands arguments to connectors and plugins"},
	{Name: "lora_path", Verdict: FieldForbidden, Engines: sglang, Effect: "answers with other weights, from a path of the client's choosing"},
	{Name: "lora", Verdict: FieldForbidden, Engines: llamacpp, Effect: "answers with other weights"},
	{Name: "return_hidden_states", Verdict: FieldForbidden, Engines: sglang, Effect: "gives back the model's inner states, and rebuilds CUDA graphs"},
	{Name: "mm_payload", Verdict: FieldForbidden, Engines: vllm, Effect: "hands over media that the gateway cannot check"},
	{Name: "return_mm_kwargs", Verdict: FieldForbidden, Engines: vllm, Effect: "gives back what the engine made of media"},
	{Name: "return_routed_experts", Verdict: FieldForbidden, Engines: both, Effect: "gives back the model's inner states"},
	{Name: "session_params", Verdict: FieldForbidden, Engines: sglang, Effect: "goes on from a session that may be another tenant's"},
	{Name: "previous_response_id", Verdict: FieldForbidden, Engines: both, Effect: "reads an answer from a store that does not know tenants"},
	{Name: "conversation", Verdict: FieldForbidden, Engines: both, Effect: "reads messages from a store that does not know tenants"},
	{Name: "background", Verdict: FieldForbidden, Engines: both, Effect: "goes on when the client has left, and is in no limit"},
	{Name: "previous_input_messages", Verdict: FieldForbidden, Engines: vllm, Effect: "replaces the prompt by messages that are not checked"},
	{Name: "input_embeds", Verdict: FieldForbidden, Engines: sglang, Effect: "replaces the prompt by numbers that are not checked"},
	{Name: "positional_embed_overrides", Verdict: FieldForbidden, Engines: sglang, Effect: "replaces parts of the prompt by unchecked numbers"},
	{Name: "features", Verdict: FieldForbidden, Engines: vllm, Effect: "hands over media that the gateway cannot check"},

	// Fields that return text that the gateway or the template added, or that cost much.
	{Name: "chat_template", Verdict: FieldRefused, Engines: vllm, Effect: "runs a template that the client wrote", Prompt: true},
	{Name: Kwargs, Verdict: FieldRefused, Engines: both, Effect: "hands arguments to the chat template", Prompt: true},
	{Name: "documents", Verdict: FieldRefused, Engines: vllm, Effect: "adds documents to the prompt", Prompt: true},
	{Name: "media_io_kwargs", Verdict: FieldRefused, Engines: vllm, Effect: "says how media are decoded", Prompt: true},
	{Name: "mm_processor_kwargs", Verdict: FieldRefused, Engines: vllm, Effect: "hands arguments to the processor of media", Prompt: true},
	{Name: "prompt_embeds", Verdict: FieldRefused, Engines: vllm, Effect: "decodes tensors that the client wrote", Prompt: true},
	{Name: "prompt_logprobs", Verdict: FieldRefused, Engines: vllm, Effect: "gives back the prompt; much of it can end the engine"},
	{Name: "logprob_start_len", Verdict: FieldRefused, Engines: sglang, Effect: "gives back the prompt"},
	{Name: "return_prompt_text", Verdict: FieldRefused, Engines: vllm, Effect: "gives back the prompt with what the template added"},
	{Name: "enable_response_messages", Verdict: FieldRefused, Engines: vllm, Effect: "gives back the prompt with what the template added"},
	{Name: "return_token_ids", Verdict: FieldRefused, Engines: vllm, Effect: "gives back the prompt as tokens"},
	{Name: "return_prompt_token_ids", Verdict: FieldRefused, Engines: sglang, Effect: "gives back the prompt as tokens"},
	{Name: "logprob_token_ids", Verdict: FieldRefused, Engines: vllm, Effect: "gives logprobs of any tokens"},
	{Name: "token_ids_logprob", Verdict: FieldRefused, Engines: sglang, Effect: "gives logprobs of any tokens"},
	{Name: "stop_regex", Verdict: FieldRefused, Engines: sglang, Effect: "matches a pattern after each token; a slow one stops the engine"},
	{Name: "use_beam_search", Verdict: FieldRefused, Engines: vllm, Effect: "generates many answers for one"},
}

// KeptFields are fields of engines that are forwarded to drafts, too, because they mean the same there: sampling, ends, and how
// tokens become text. vLLM uses return_token_offsets only where it renders prompts.
var KeptFields = strings.Fields(`
	top_k min_p min_tokens ignore_eos stop_token_ids include_stop_str_in_output repetition_penalty repeat_last_n dry_base
	dry_allowed_length dry_penalty_last_n dry_sequence_breakers length_penalty typical_p top_n_sigma xtc_probability
	xtc_threshold dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay min_keep
	samplers skip_special_tokens spaces_between_special_tokens add_special_tokens include_reasoning reasoning_format
	reasoning_in_content return_token_offsets`)

// SamplingFields are the fields that a continuation by ids sends as the client sent them. Penalties are among them if the
// client set them to none, because an engine may have other defaults.
var SamplingFields = []string{
	"temperature", "top_p", "top_k", "min_p", "seed", "stop_token_ids", "ignore_eos",
	"frequency_penalty", "presence_penalty", "repetition_penalty",
	"skip_special_tokens", "spaces_between_special_tokens", "user",
}

// fieldByName is [FieldTable] by name.
var fieldByName = func() map[string]*Field {
	m := make(map[string]*Field, len(FieldTable))
	for i := range FieldTable {
		m[FieldTable[i].Name] = &FieldTable[i]
	}
	return m
}()

// LookupField returns the row of a field; the zero Field is forwarded.
func LookupField(name string) Field {
	if f, ok := fieldByName[name]; ok {
		return *f
	}
	return Field{}
}

// LookupFieldIn returns the row of a field for a path. Scores and ranks are of documents, which the table refuses.
func LookupFieldIn(at, name string) Field {
	if name == "documents" && (path.Base(at) == "rerank" || path.Base(at) == "score") {
		return Field{}
	}
	return LookupField(name)
}

// TemplateKwargs are the arguments of the chat template that every client may send, with the kinds of their
// values: the switches of reasoning models.
var TemplateKwargs = map[string]jsontext.Kind{
	"enable_thinking":  't', // Qwen, GLM, and many more
	"thinking":         't', // DeepSeek, Granite
	"thinking_budget":  '0', // Seed
	"reasoning_effort": '"', // gpt-oss
}

// engineKwargs are the arguments that the engine itself passes to the function that applies the template. No route can allow
// them.
var engineKwargs = []string{
	"chat_template", "conversation", "messages", "documents", "tools", "tokenize", "tokenizer", "tokenizer_kwargs",
	"processor_kwargs", "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
	"add_generation_prompt", "continue_final_message", "load_audio_from_video", "model_config",
}

// FieldAllowable returns nil for an entry that a route may list in allow_fields: a refused field, a type of
// content part with media, or chat_template_kwargs.NAME. The error says why any other entry may not be
// listed.
func FieldAllowable(entry string) error {
	if name, ok := strings.CutPrefix(entry, Kwargs+"."); ok {
		return kwargAllowable(name)
	}
	f, known := fieldByName[entry]
	switch {
	case entry == Kwargs:
		return fmt.Errorf("list the arguments one by one, such as %s.custom_instructions; %s needs no entry", Kwargs, "enable_thinking")
	case known && f.Verdict == FieldRefused, PartTypes[entry].Media:
		return nil
	case known && f.Verdict == FieldStripped:
		return fmt.Errorf("%s can never be allowed: it %s (%s), so it is always removed", entry, f.Effect, f.Engines)
	case known && f.Verdict == FieldTarget:
		return fmt.Errorf("%s needs no entry: every route sends it to the target, where it %s (%s)", entry, f.Effect, f.Engines)
	case known:
		return fmt.Errorf("%s can never be allowed: it %s (%s)", entry, f.Effect, f.Engines)
	}
	return fmt.Errorf("this is no field that is refused; those that may be listed are %s, and %s.NAME", strings.Join(AllowableFields(), ", "), Kwargs)
}

func kwargAllowable(name string) error {
	_, found := TemplateKwargs[name]
	switch {
	case name == "" || len(name) > 64 || strings.Trim(name, letters+"_") != "":
		return fmt.Errorf("want %s.NAME with a NAME of 1–64 of A-Z a-z 0-9 _", Kwargs)
	case slices.Contains(engineKwargs, name):
		return fmt.Errorf("%s.%s can never be allowed: it is an argument of the engine's own, which changes more than the template's text",
			Kwargs, name)
	case found:
		return fmt.Errorf("%s.%s is accepted on every route; remove it", Kwargs, name)
	}
	return nil
}

// AllowableFields returns the fields and types of content parts that a route may list, sorted, without members of
// [Kwargs].
func AllowableFields() []string {
	var names []string
	for _, f := range FieldTable {
		if f.Verdict == FieldRefused && f.Name != Kwargs {
			names = append(names, f.Name)
		}
	}
	for typ, p := range PartTypes {
		if p.Media {
			names = append(names, typ)
		}
	}
	slices.Sort(names)
	return names
}

// openAIFields are the members of requests to POST /v1/chat/completions and POST /v1/completions in OpenAI's API
// reference, as of 2026.
var openAIFields = []string{
	"model", "messages", "prompt", "suffix", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "best_of",
	"stop", "seed", "temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "echo",
	"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "response_format", "reasoning_effort", "verbosity",
	"modalities", "audio", "prediction", "web_search_options", "metadata", "store", "service_tier", "user", "safety_identifier",
	"prompt_cache_key", "prompt_cache_retention",
}

// bindingFields are members of single engines without which an answer would not be what the client asked for: an engine that
// does not know them must refuse the request, not ignore them.
var bindingFields = []string{
	"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "regex", "ebnf", "grammar", "structural_tag",
	"continue_final_message", "add_generation_prompt", "prompt_embeds", "use_beam_search", "bad_words", "allowed_token_ids",
}

// PortableField reports whether a member is sent to an engine of which only OpenAI's API is known: the API has it, or the
// answer would be another one without it. Every other member is a hint or a setting of single engines.
func PortableField(name string) bool {
	return slices.Contains(openAIFields, name) || slices.Contains(bindingFields, name)
}

// PartType is a type of content part.
type PartType struct {
	Keys  []string // all keys that a part of this type may have, including type
	Media bool     // an engine decodes a file for it: refused unless the route lists the type in allow_fields

	Sources []string // the types that its member source may have; "string" is one that is a string
}

// PartTypes are the types of content parts by the value of their member type: of chats (OpenAI's and vLLM's), of
// responses (input_…, output_…, …_text) and of messages (Anthropic's). None has the key uuid: with it vLLM
// treats the type as unknown, searches for the names of media instead, and stores media under it for all
// tenants.
var PartTypes = map[string]PartType{
	"text":              {Keys: []string{"type", "text", "cache_control", "citations"}},
	"input_text":        {Keys: []string{"type", "text"}},
	"output_text":       {Keys: []string{"type", "text", "annotations", "logprobs"}},
	"reasoning_text":    {Keys: []string{"type", "text"}},
	"summary_text":      {Keys: []string{"type", "text"}},
	"refusal":           {Keys: []string{"type", "refusal"}},
	"thinking":          {Keys: []string{"type", "thinking", "signature", "closed", "cache_control"}},
	"redacted_thinking": {Keys: []string{"type", "data"}},
	"tool_use":          {Keys: []string{"type", "id", "name", "input", "cache_control"}},
	"tool_result":       {Keys: []string{"type", "tool_use_id", "content", "is_error", "cache_control"}},

	"image_url":   {Keys: []string{"type", "image_url"}, Media: true},
	"audio_url":   {Keys: []string{"type", "audio_url"}, Media: true},
	"video_url":   {Keys: []string{"type", "video_url"}, Media: true},
	"input_audio": {Keys: []string{"type", "input_audio"}, Media: true},
	"input_image": {Keys: []string{"type", "image_url", "detail"}, Media: true},
	"image":       {Keys: []string{"type", "source", "cache_control"}, Media: true, Sources: []string{"base64"}},

	// Of messages, and translated into text: their sources are in the request.
	"document":       {Keys: []string{"type", "source", "title", "context", "citations", "cache_control"}, Sources: []string{"text", "content"}},
	"search_result":  {Keys: []string{"type", "source", "title", "content", "citations", "cache_control"}, Sources: []string{"string"}},
	"tool_reference": {Keys: []string{"type", "tool_name", "cache_control"}},
	"tool_addition":  {Keys: []string{"type", "tool", "cache_control"}},
	"tool_removal":   {Keys: []string{"type", "tool", "cache_control"}},
}

package openai

import (
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/fields"
)

// readers are the fields that the gateway uses or bounds. All others are forwarded unread.
var readers = map[string]reader{
	"model":                 readModel,
	"messages":              readMessages,
	"prompt":                readPrompt,
	"stream":                flag(func(r *Request, v bool) { r.Stream = v }),
	"stream_options":        readStreamOptions,
	"max_tokens":            whole(func(s *scanner, v int) { s.req.MaxTokens = v }),
	"max_completion_tokens": whole(func(s *scanner, v int) { s.maxCompletion = v }),
	"min_tokens":            whole(readMinTokens),
	"n":                     readN,
	"best_of":               readN,
	"stop":                  readStop,
	"seed":                  readSeed,
	"temperature":           number(0, 2, func(r *Request, v float64) { r.Temperature = v }),
	"top_p":                 number(0, 1, nil),
	"frequency_penalty":     number(-2, 2, func(r *Request, v float64) { r.Penalties = r.Penalties || v != 0 }),
	"presence_penalty":      number(-2, 2, func(r *Request, v float64) { r.Penalties = r.Penalties || v != 0 }),
	"repetition_penalty":    number(0, 10, func(r *Request, v float64) { r.Penalties = r.Penalties || v != 1 }),
	"logit_bias":            readLogitBias,
	"bad_words":             list('"', func(r *Request) { r.Penalties = true }),
	"allowed_token_ids":     list('0', func(r *Request) { r.Penalties = true }),

	"logprobs":                   readLogprobs,
	"top_logprobs":               whole(func(s *scanner, v int) { s.req.Logprobs = s.req.Logprobs || v > 0 }),
	"tools":                      readTools,
	"functions":                  readTools,
	"tool_choice":                readToolChoice,
	"response_format":            readFormat,
	"structured_outputs":         readStructured,
	"guided_json":                readGrammar, // vLLM up to v0.11
	"guided_regex":               readGrammar,
	"guided_choice":              readGrammar,
	"guided_grammar":             readGrammar,
	"json_schema":                readGrammar, // SGLang
	"regex":                      readGrammar,
	"ebnf":                       readGrammar,
	"grammar":                    readGrammar, // llama.cpp
	"structural_tag":             readGrammar,
	"continue_final_message":     flag(func(r *Request, v bool) { r.Continues = r.Continues || v }),
	"add_generation_prompt":      flag(func(r *Request, v bool) { r.Continues = r.Continues || !v }),
	"include_stop_str_in_output": flag(func(r *Request, v bool) { r.IncludeStop = v }),
}

// knownNames are the names of all fields that the gateway reads or has a rule for. A body's names are taken from it,
// so that usual names cost no allocation (BenchmarkScan).
var knownNames = func() map[string]string {
	names := map[string]string{}
	for name := range readers {
		names[name] = name
	}
	for i := range fields.Table {
		names[fields.Table[i].Name] = fields.Table[i].Name
	}
	for _, name := range append(slices.Clone(Ephemeral), "metadata", "store", "parallel_tool_calls", "service_tier", "reasoning_effort", "top_k", "min_p") {
		names[name] = name
	}
	return names
}()

// nameOf returns a quoted name's text.
func nameOf(quoted []byte) string {
	plain := plainName(quoted)
	if name, ok := knownNames[string(plain)]; ok {
		return name
	}
	return string(plain)
}

// HasBeside reports whether the request has a forwarded field that is not null, and that neither the gateway
// reads nor known lists.
func (r *Request) HasBeside(known ...[]string) bool {
	for i := range r.members {
		m := &r.members[i]
		if _, read := readers[m.name]; read || m.drop || m.value.Of(r.Body)[0] == 'n' {
			continue
		}
		if !slices.ContainsFunc(known, func(names []string) bool { return slices.Contains(names, m.name) }) {
			return true
		}
	}
	return false
}

// readerOf returns a field's reader. A name that differs from a known one only in case is refused, because
// parsers disagree about its meaning.
func readerOf(name string, kind Kind) (reader, *RequestError) {
	if read, ok := readers[name]; ok {
		if (kind == Chat && name == "prompt") || (kind == Completion && name == "messages") {
			return nil, badField(name, "unknown_parameter", "%s is not a parameter of %s.", name, kind.Path())
		}
		return read, nil
	}
	lower := strings.ToLower(name)
	if lower == name {
		return nil, nil
	}
	if _, ok := readers[lower]; ok {
		return nil, badField(clip(name, 64), "duplicate_key", "The field %q must be written %q.", clip(name, 64), lower)
	}
	return nil, nil
}

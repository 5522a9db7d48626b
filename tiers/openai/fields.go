package openai

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads the value of one top-level field. It returns the value's span.
type reader func(s *scanner, name string) (Span, *RequestError)

// readers are the fields that the gateway decides on or bounds. All others
// pass through unread.
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
	"structural_tag":             readGrammar,
	"continue_final_message":     flag(func(r *Request, v bool) { r.Continues = r.Continues || v }),
	"add_generation_prompt":      flag(func(r *Request, v bool) { r.Continues = r.Continues || !v }),
	"include_stop_str_in_output": flag(func(r *Request, v bool) { r.IncludeStop = v }),
}

// HasBeside reports whether the request has a field that is sent on, is not null, and is neither one
// that the gateway reads nor one of these.
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

// harmless reports whether a refused field asks for nothing. It is stripped then.
func harmless(raw []byte) bool {
	switch string(raw) {
	case "null", "false", "[]", "{}", `""`:
		return true
	}
	return false
}

// readerOf finds a field's reader. A name that differs from a known one only in
// case is refused: parsers disagree on whom it means.
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

func wrongType(name, want string, got jsontext.Kind) *RequestError {
	return badField(name, "invalid_type", "%s must be %s, but is %s.", name, want, kindWord(got))
}

func kindWord(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "malformed"
}

// read consumes a value of the wanted kind.
func (s *scanner) read(name, want string, kinds ...jsontext.Kind) ([]byte, Span, *RequestError) {
	got := s.cur.kind()
	for _, k := range kinds {
		if k == got {
			raw, at := s.cur.value()
			return raw, at, nil
		}
	}
	if got == 0 {
		s.cur.token()
		return nil, Span{}, nil // the caller sees the syntax error
	}
	return nil, Span{}, wrongType(name, want, got)
}

func flag(set func(*Request, bool)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "a boolean", 't', 'f')
		if err == nil {
			set(s.req, string(raw) == "true")
		}
		return at, err
	}
}

// whole reads an integer from 0 up.
func whole(set func(*scanner, int)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "an integer", '0')
		if err != nil || raw == nil {
			return at, err
		}
		v, err := s.integer(name, raw, 0, s.lim.Tokens)
		if err == nil {
			set(s, v)
		}
		return at, err
	}
}

// longestNumber is the most characters a number may have: beyond it parsers
// lose precision in different ways.
const longestNumber = 40

func (s *scanner) integer(name string, raw []byte, least, most int) (int, *RequestError) {
	if len(raw) > longestNumber {
		return 0, badField(name, "invalid_value", "%s has more than %d digits.", name, longestNumber)
	}
	v, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, badField(name, "invalid_type", "%s must be an integer, but is %s.", name, clip(string(raw), longestNumber))
	}
	if v < least || v > most {
		return 0, badField(name, "invalid_value", "%s must be between %d and %d, but is %d.", name, least, most, v)
	}
	return v, nil
}

func number(least, most float64, set func(*Request, float64)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "a number", '0')
		if err != nil || raw == nil {
			return at, err
		}
		v, perr := strconv.ParseFloat(string(raw), 64)
		if len(raw) > longestNumber || perr != nil || math.IsNaN(v) || v < least || v > most {
			return at, badField(name, "invalid_value", "%s must be between %g and %g, but is %s.", name, least, most, clip(string(raw), longestNumber))
		}
		if set != nil {
			set(s.req, v)
		}
		return at, nil
	}
}

// list reads an array whose elements are of one kind; set is called when there
// are any.
func list(kind byte, set func(*Request)) reader {
	return func(s *scanner, name string) (Span, *RequestError) {
		raw, at, err := s.read(name, "an array", '[')
		if err != nil || raw == nil {
			return at, err
		}
		if !only(raw, kind) {
			return at, badField(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord(jsontext.Kind(kind)))
		}
		if len(raw) > s.lim.Grammar {
			return at, badField(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
		}
		if !harmless(raw) {
			set(s.req)
		}
		return at, nil
	}
}

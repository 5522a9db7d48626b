package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Scan parses a request body strictly: exactly one JSON object, no duplicate names, valid UTF-8, bounded
// depth, and correct types and ranges of the fields that the gateway uses. The error is always a
// *RequestError. The request keeps body, which must not change afterwards.
func Scan(kind Kind, body []byte, lim Limits) (*Request, error) {
	s := scanner{path: kind.Path(), readers: readers, req: &Request{Kind: kind, Body: body}}
	return s.scan(lim, s.check)
}

// Peek reads the model of a JSON request to a path strictly and checks the rest like [Scan]: fields that
// control an engine are removed. What is refused in a generation request is refused here, too, including
// anything that a backend would fetch, because it could be an address inside the cluster. The error is always
// a *RequestError.
func Peek(path string, body []byte, lim Limits) (*Request, error) {
	s := scanner{path: path, readers: passedReaders, req: &Request{Body: body}}
	return s.scan(lim, s.measure)
}

// scan reads the members of a body; check checks conditions between them.
func (s *scanner) scan(lim Limits, check func()) (*Request, error) {
	r := s.req
	if at := depthOffset(r.Body, lim.Depth); at >= 0 {
		return nil, badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", lim.Depth, at)
	}
	r.MaxTokens, r.N, r.Temperature, r.members = -1, 1, 1, make([]member, 0, 16)
	c := borrowCursor(r.Body)
	defer c.release()
	s.maxCompletion, s.walker = -1, walker{cur: c, body: r.Body, lim: lim}
	if !c.enter('{') {
		if c.kind() != 0 {
			s.bad("", "invalid_json", "The request body must be a JSON object.")
		}
		c.token() // reports a syntax error, if it is one
	}
	for c.more() {
		if len(r.members) >= lim.Fields {
			s.bad("", "too_many_fields", "The request has more than %d fields.", lim.Fields)
			break
		}
		s.member()
	}
	if c.end(); !r.has("model") {
		s.bad("model", "missing_required_parameter", "You must provide a model.")
	}
	if c.err == nil {
		s.allowed(r.Model)
		check()
	}
	if err := s.failed(); err != nil {
		return nil, err
	}
	return r, nil
}

// member reads one top-level member.
func (s *scanner) member() {
	quoted, at := s.cur.value()
	if s.cur.err != nil {
		return
	}
	m := member{name: string(plainName(quoted))}
	read, err := s.readerOf(m.name)
	if err != nil {
		s.cur.fail(err)
		return
	}
	if read == nil || (s.cur.kind() == 'n' && !needed(m.name)) { // null means absent in all other fields
		rule, own := LookupFieldIn(s.path, m.name), slices.Contains(s.lim.Own, m.name)
		if own {
			rule = Field{}
		}
		m.drop, m.value = s.field(m.name, rule)
		s.req.Own = s.req.Own || own && string(m.value.Of(s.body)) != "null"
	} else {
		start := s.cur.last()
		if read(s, m.name); s.cur.err == nil {
			m.value = s.since(start)
		}
	}
	m.whole = Span{at.Start, m.value.End}
	s.req.members = append(s.req.members, m)
}

// needed are the fields that may not be null.
func needed(name string) bool { return name == "model" || name == "messages" || name == "prompt" }

// check checks conditions between fields.
func (s *scanner) check() {
	r := s.req
	if s.maxCompletion >= 0 && r.Kind == Chat { // vLLM's completions do not have it
		r.MaxTokens = s.maxCompletion
	}
	s.extras()
	input := "messages"
	if r.Kind == Completion {
		input = "prompt"
	}
	if !r.has(input) {
		s.bad(input, "missing_required_parameter", "You must provide %s.", input)
	}
	if n := r.Answers(); n > s.lim.Answers {
		s.tooMany(input, "answers (those to each of several prompts together)", n, s.lim.Answers)
	}
	r.Media = s.special
	if r.Kind == Chat {
		r.SinglePlain = !r.Media
	}
	r.Tools = r.tools && !r.noTools
	if r.PromptTokens == 0 {
		r.PromptTokens = EstimateTokens(max(r.PromptBytes, 1))
	}
}

// extras records fields that only the target can serve.
func (s *scanner) extras() {
	for _, m := range s.req.members {
		if m.drop || m.name == Kwargs && s.req.onlyTurnsThinkingOff(m.value) {
			continue
		}
		if f := LookupField(m.name); f.Verdict == FieldRefused || f.Verdict == FieldTarget {
			s.req.Extras = true
			s.req.shows = s.req.shows || !f.Prompt
		}
	}
}

// scanner reads the members of a request.
type scanner struct {
	walker

	path          string
	readers       map[string]reader
	req           *Request
	maxCompletion int // max_completion_tokens, -1 when absent
}

// reader reads the value of one top-level field.
type reader func(s *scanner, name string)

// read consumes a value of one of the wanted kinds; nil if it is of another, which is refused.
func (s *scanner) read(name, want string, kinds ...jsontext.Kind) []byte {
	got := s.cur.kind()
	if got != 0 && !slices.Contains(kinds, got) {
		s.cur.fail(wrongType(name, want, got))
	}
	raw, _ := s.cur.value()
	return raw
}

func boolean(set func(*Request, bool)) reader {
	return func(s *scanner, name string) { set(s.req, string(s.read(name, "a boolean", 't', 'f')) == "true") }
}

// whole reads a non-negative integer.
func whole(set func(*scanner, int)) reader {
	return func(s *scanner, name string) { set(s, s.integer(name, 0, s.lim.Tokens)) }
}

func (s *scanner) integer(name string, minimum, maximum int) int {
	raw := s.read(name, "an integer", '0')
	v, err := strconv.Atoi(string(raw))
	switch {
	case len(raw) > longestNumber:
		s.bad(name, "invalid_value", "%s has more than %d digits.", name, longestNumber)
	case err != nil:
		s.bad(name, "invalid_type", "%s must be an integer, but is %s.", name, clip(string(raw), longestNumber))
	case v < minimum || v > maximum:
		s.bad(name, "invalid_value", "%s must be between %d and %d, but is %d.", name, minimum, maximum, v)
	}
	return v
}

func number(minimum, maximum float64, set func(*Request, float64)) reader {
	return func(s *scanner, name string) {
		raw := s.read(name, "a number", '0')
		v, err := strconv.ParseFloat(string(raw), 64)
		if len(raw) > longestNumber || err != nil || math.IsNaN(v) || v < minimum || v > maximum {
			s.bad(name, "invalid_value", "%s must be between %g and %g, but is %s.", name, minimum, maximum, clip(string(raw), longestNumber))
		}
		if set != nil {
			set(s.req, v)
		}
	}
}

// list reads an array whose elements are of one kind; set is called if there are any.
func list(kind jsontext.Kind, set func(*Request)) reader {
	return func(s *scanner, name string) {
		raw := s.read(name, "an array", '[')
		elements, _ := Elements(raw)
		for _, v := range elements {
			if jsontext.Value(v).Kind() != kind {
				s.bad(name, "invalid_type", "%s must hold only elements that are %s.", name, kindWord(kind))
			}
		}
		if s.bounded(name, raw); !harmless(raw) {
			set(s.req)
		}
	}
}

// bounded refuses a value that is larger than a grammar may be.
func (s *scanner) bounded(name string, raw []byte) {
	if len(raw) > s.lim.Grammar {
		s.bad(name, "invalid_value", "%s is larger than %d bytes.", name, s.lim.Grammar)
	}
}

// readers are the fields that the gateway uses or bounds. All others are forwarded unread.
var readers = map[string]reader{
	"model":                 readModel,
	"messages":              readMessages,
	"prompt":                readPrompt,
	"stream":                boolean(func(r *Request, v bool) { r.Stream = v }),
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
	"continue_final_message":     boolean(func(r *Request, v bool) { r.Continues = r.Continues || v }),
	"add_generation_prompt":      boolean(func(r *Request, v bool) { r.Continues = r.Continues || !v }),
	"include_stop_str_in_output": boolean(func(r *Request, v bool) { r.IncludeStop = v }),
}

// passedReaders are the fields of other requests that the gateway uses.
var passedReaders = map[string]reader{"model": readModel}

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
func (s *scanner) readerOf(name string) (reader, *RequestError) {
	if read, ok := s.readers[name]; ok {
		if (s.req.Kind == Chat && name == "prompt") || (s.req.Kind == Completion && name == "messages") {
			return nil, badField(name, "unknown_parameter", "%s is not a parameter of %s.", name, s.path)
		}
		return read, nil
	}
	lower := strings.ToLower(name)
	if _, ok := s.readers[lower]; ok {
		return nil, badField(clip(name, maxName), "duplicate_key", "The field %q must be written %q.", clip(name, maxName), lower)
	}
	return nil, nil
}

// RequestError says what is wrong with a request and where.
type RequestError struct {
	Status  int    // HTTP status
	Message string // for the client
	Param   string // the field, "" when the whole body is meant
	Code    string // OpenAI's error code
}

// Error implements error.
func (e *RequestError) Error() string { return e.Message }

func badField(param, code, format string, args ...any) *RequestError {
	return &RequestError{Status: http.StatusBadRequest, Param: param, Code: code, Message: fmt.Sprintf(format, args...)}
}

func wrongType(name, want string, got jsontext.Kind) *RequestError {
	return badField(name, "invalid_type", "%s must be %s, but is %s.", name, want, kindWord(got))
}

// syntaxError describes an error of the JSON text, with its byte offset and its location in the document.
func syntaxError(body []byte, err error) *RequestError {
	out := &RequestError{Status: http.StatusBadRequest, Code: "invalid_json"}
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &syn):
		where := string(syn.JSONPointer)
		if where == "" {
			where = "the top level"
		}
		out.Message = fmt.Sprintf("The request body is not valid JSON at byte %d (%s): %s.", syn.ByteOffset, clip(where, 100), clip(fmt.Sprint(syn.Err), 200))
		if errors.Is(syn.Err, jsontext.ErrDuplicateName) {
			out.Code = "duplicate_key"
			out.Param = clip(strings.TrimPrefix(string(syn.JSONPointer), "/"), 100)
		}
	case len(bytes.TrimSpace(body)) == 0:
		out.Message = "The request body is empty; a JSON object is needed."
	default:
		out.Message = fmt.Sprintf("The request body is not valid JSON at byte %d: %v.", len(body), err)
	}
	return out
}

// clip bounds external text in a message.
func clip(s string, maximum int) string {
	if len(s) > maximum {
		s = strings.ToValidUTF8(s[:maximum], "") + "…"
	}
	return s
}

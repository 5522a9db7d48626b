package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/foregate/foregate/tiers/fields"
)

// Kind tells the two generation endpoints apart.
type Kind uint8

// The endpoints whose requests the cascade answers.
const (
	Chat       Kind = iota // POST /v1/chat/completions
	Completion             // POST /v1/completions
)

// Path is the endpoint's path on the wire.
func (k Kind) Path() string {
	if k == Completion {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// Limits bound what one request may ask for.
type Limits struct {
	Depth     int // nesting of the JSON text
	Fields    int // top-level members
	Messages  int // messages of a chat
	N         int // choices per request
	Tokens    int // max_tokens, min_tokens
	Stops     int // stop strings
	LogitBias int // entries of logit_bias
	Grammar   int // bytes of a schema, regex or grammar

	// Allow is what the route of a model lists under allow_fields: refused fields, types of content parts with
	// media, and arguments of the chat template. nil, and an unknown model, allow none.
	Allow func(model string) []string
}

// DefaultLimits are the limits of a gateway that was told nothing else.
func DefaultLimits() Limits {
	return Limits{
		Depth: 64, Fields: 256, Messages: 4096, N: 8, Tokens: 1 << 20,
		Stops: 16, LogitBias: 1024, Grammar: 256 << 10,
	}
}

// Request is a generation request as one strict pass read it. Unknown fields
// are kept untouched in the body. It is not changed after that, so that requests that
// are alike may share one.
type Request struct {
	Kind Kind
	Body []byte // as received; the spans point into it

	Model        string
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	MaxTokens    int  // max_completion_tokens, else max_tokens; -1 when absent
	N            int  // choices, at least 1; with best_of, as many as are generated
	Stop         []string
	IncludeStop  bool // include_stop_str_in_output
	Temperature  float64
	HasSeed      bool

	Tools       bool // tools are offered and tool_choice does not forbid them
	Structured  bool // response_format or structured_outputs constrain the answer
	JSON        bool // to JSON
	Extras      bool // something is to be added to the answer that only its backend can
	MinTokens   bool // min_tokens is above 0
	Logprobs    bool // the client asked for logprobs
	Media       bool // a message has parts that are not text: an image, audio, video, what a tool said
	Penalties   bool // penalties, biases or min_tokens, which act on the whole answer
	Continues   bool // continue_final_message, or no generation prompt
	SinglePlain bool // one text prompt: a chat, or a completion of one string

	PromptBytes  int // bytes of prompt text
	PromptTokens int // tokens of the prompt: exact for ids, else estimated from the bytes

	members  []member
	messages Span // of the messages array
	system   Span // of its leading system messages; empty where there are none
	first    Span // of the message behind them, from their end
	prompts  int  // of a completion
	noTools  bool // tool_choice is "none"
	tools    bool
	shows    bool // some of the extras show in the answer
}

// member is one top-level member of the body.
type member struct {
	name  string
	whole Span // from the name's quote to the value's end
	value Span
	drop  bool // not to be forwarded
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

// bytesPerToken estimates English and code for Llama-like vocabularies of 128k
// entries; four bytes a token is the vendors' own rule of thumb.
const bytesPerToken = 4

// Scan reads a request body strictly: exactly one JSON object, no duplicate
// names, valid UTF-8, bounded depth, and the fields that the gateway relies on of
// the right type and range. The error is always a *RequestError. The request
// keeps body, which must not change afterwards.
func Scan(kind Kind, body []byte, lim Limits) (*Request, error) {
	if at := depthOffset(body, lim.Depth); at >= 0 {
		return nil, badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", lim.Depth, at)
	}
	const usual = 16 // members of a request
	r := &Request{Kind: kind, Body: body, MaxTokens: -1, N: 1, Temperature: 1, members: make([]member, 0, usual)}
	c := borrowCursor(body)
	defer c.release()
	s := scanner{req: r, walker: walker{cur: c, body: body, lim: lim}}
	if err := s.members(); err != nil {
		return nil, err
	}
	if c.end(); c.err != nil {
		return nil, syntaxError(body, c.err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return r, nil
}

type scanner struct {
	walker

	req           *Request
	maxCompletion int // max_completion_tokens, -1 when absent
}

// members walks the top-level members and hands each to its reader.
func (s *scanner) members() *RequestError {
	s.maxCompletion = -1
	if !s.cur.enter('{') {
		if s.cur.err == nil && s.cur.kind() != 0 {
			return badField("", "invalid_json", "The request body must be a JSON object.")
		}
		s.cur.token()
		return syntaxError(s.req.Body, s.cur.err)
	}
	for s.cur.more() {
		if len(s.req.members) >= s.lim.Fields {
			return badField("", "too_many_fields", "The request has more than %d fields.", s.lim.Fields)
		}
		if err := s.member(); err != nil {
			return err
		}
	}
	if s.cur.err != nil {
		return syntaxError(s.req.Body, s.cur.err)
	}
	return nil
}

func (s *scanner) member() *RequestError {
	quoted, at := s.cur.value()
	if s.cur.err != nil {
		return syntaxError(s.req.Body, s.cur.err)
	}
	name := string(plainName(quoted))
	read, err := readerOf(name, s.req.Kind)
	if err != nil {
		return err
	}
	m := member{name: name}
	if read == nil || (s.cur.kind() == 'n' && !needed(name)) { // null everywhere means absent
		m.drop, m.value, err = s.field(name, fields.Of(name))
	} else {
		m.value, err = read(s, name)
	}
	switch {
	case s.cur.err != nil:
		return syntaxError(s.req.Body, s.cur.err)
	case err != nil:
		return err
	}
	m.whole = Span{at.Start, m.value.End}
	s.req.members = append(s.req.members, m)
	return nil
}

// needed are the fields that may not be null.
func needed(name string) bool { return name == "model" || name == "messages" || name == "prompt" }

// check tells what only the whole request can tell.
func (s *scanner) check() *RequestError {
	r := s.req
	if s.maxCompletion >= 0 && r.Kind == Chat { // vLLM's completions do not know it
		r.MaxTokens = s.maxCompletion
	}
	if !r.has("model") {
		return badField("model", "missing_required_parameter", "You must provide a model.")
	}
	if err := s.allowed(r.Model); err != nil {
		return err
	}
	s.extras()
	input := "messages"
	if r.Kind == Completion {
		input = "prompt"
	}
	if !r.has(input) {
		return badField(input, "missing_required_parameter", "You must provide %s.", input)
	}
	r.Media = s.special
	if r.Kind == Chat {
		r.SinglePlain = !r.Media
	}
	r.Tools = r.tools && !r.noTools
	if r.PromptTokens == 0 {
		r.PromptTokens = EstimateTokens(max(r.PromptBytes, 1))
	}
	return nil
}

// extras notes what is sent on only because it was allowed.
func (s *scanner) extras() {
	for _, m := range s.req.members {
		if f := fields.Of(m.name); f.Verdict == fields.Refused && !m.drop {
			s.req.Extras = true
			s.req.shows = s.req.shows || !f.Prompt
		}
	}
}

func (r *Request) has(name string) bool {
	_, ok := r.member(name)
	return ok
}

func (r *Request) member(name string) (member, bool) {
	for _, m := range r.members {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

// Raw returns the raw JSON value of a top-level field, nil when absent.
func (r *Request) Raw(name string) []byte {
	if m, ok := r.member(name); ok {
		return m.value.Of(r.Body)
	}
	return nil
}

// IgnoresEOS reports whether an end-of-sequence token does not end the answer (ignore_eos). A value
// that is neither false nor null counts as true.
func (r *Request) IgnoresEOS() bool {
	v := string(r.Raw("ignore_eos"))
	return v != "" && v != "false" && v != "null"
}

// syntaxError words an error of the JSON text, with its byte offset and the
// place in the document.
func syntaxError(body []byte, err error) *RequestError {
	out := &RequestError{Status: http.StatusBadRequest, Code: "invalid_json"}
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &syn):
		where := string(syn.JSONPointer)
		if where == "" {
			where = "the top level"
		}
		out.Message = fmt.Sprintf("The request body is not valid JSON at byte %d (%s): %s.", syn.ByteOffset, clip(where, 100), clip(reason(syn.Err), 200))
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

func reason(err error) string {
	if err == nil {
		return "syntax error"
	}
	return err.Error()
}

// clip bounds text from outside before it goes into a message.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Limit is the most tokens that the client wants, 0 when only the context
// bounds them. A completion that names none gets vLLM's default.
func (r *Request) Limit() int {
	if r.MaxTokens < 0 && r.Kind == Completion {
		return completionDefault
	}
	return max(r.MaxTokens, 0)
}

// completionDefault is vLLM's max_tokens for completions that name none.
const completionDefault = 16

// Text is the prompt of a completion of one string.
func (r *Request) Text() []byte {
	raw := r.Raw("prompt")
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	return unquote(nil, raw)
}

// EstimateTokens guesses the tokens of n bytes of text.
func EstimateTokens(n int) int { return int(math.Ceil(float64(n) / bytesPerToken)) }

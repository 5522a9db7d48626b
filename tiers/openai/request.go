package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound one request.
type Limits struct {
	Depth     int // nesting of the JSON text
	Fields    int // top-level members
	Messages  int // messages of a chat
	N         int // choices for each prompt
	Answers   int // of one request, to all of its prompts together
	Inputs    int // texts of one request that asks for no answers, such as embeddings
	Tokens    int // max_tokens, min_tokens
	Stops     int // stop strings
	LogitBias int // entries of logit_bias
	Grammar   int // bytes of a schema, regex or grammar

	// Own are fields that no engine may get and the gateway serves itself, see [Request.Own].
	Own []string

	// Allow returns a route's allow_fields by model: refused fields, types of content parts with media, and
	// arguments of the chat template. nil, and an unknown model, allow none.
	Allow func(model string) []string
}

// DefaultLimits are the limits without configuration.
func DefaultLimits() Limits {
	return Limits{
		Depth: 64, Fields: 256, Messages: 4096, N: 8, Answers: 128, Inputs: 2048, Tokens: 1 << 20,
		Stops: 16, LogitBias: 1024, Grammar: 256 << 10,
	}
}

// Request is a generation request as one strict pass read it. Unknown fields are kept unchanged in the body.
// It is immutable, so that identical requests may share one. It is valid as long as its body is: only its
// strings are copies.
type Request struct {
	Kind Kind
	Body []byte // as received; the spans point into it

	Model        string
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	UsageSoFar   bool // stream_options.continuous_usage_stats
	MaxTokens    int  // max_completion_tokens, else max_tokens; -1 when absent
	N            int  // choices for each prompt, at least 1; with best_of, the number generated
	Stop         []string
	IncludeStop  bool // include_stop_str_in_output
	Temperature  float64
	HasSeed      bool

	Tools       bool // tools are given and tool_choice does not forbid them
	Structured  bool // response_format or structured_outputs constrain the answer
	JSON        bool // the constraint is JSON
	Extras      bool // the answer must get additions that only its backend can make
	MinTokens   bool // min_tokens is above 0
	Logprobs    bool // the client asked for logprobs
	Media       bool // a message has parts that are not text: image, audio, video, tool result
	Penalties   bool // penalties, biases or min_tokens, which affect the whole answer
	Continues   bool // continue_final_message, or no generation prompt
	AnswerBegun bool // the last message is the assistant's: some engines continue it
	SinglePlain bool // one text prompt: a chat, or a completion of one string
	Own         bool // some member is one of [Limits.Own]: no engine may get it

	PromptBytes  int  // of prompt text
	PromptTokens int  // of all prompts: exact for ids, else estimated from the bytes
	Need         Need // of a request that Peek has read

	members []member
	system  Span    // of its leading system messages; empty if there are none
	first   Span    // of the message after them, from their end
	prompts prompts // of a completion
	noTools bool    // tool_choice is "none"
	tools   bool
	shows   bool // some of these additions are visible in the answer
}

// member is one top-level member of the body.
type member struct {
	name  string
	whole Span // from the name's quote to the value's end
	value Span
	drop  bool // it is not forwarded
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

// Members returns the names of the top-level fields that are forwarded, in the order of the body.
func (r *Request) Members() []string {
	names := make([]string, 0, len(r.members))
	for _, m := range r.members {
		if !m.drop {
			names = append(names, m.name)
		}
	}
	return names
}

// Raw returns the raw JSON value of a top-level field, nil if it is absent.
func (r *Request) Raw(name string) []byte {
	if m, ok := r.member(name); ok {
		return m.value.Of(r.Body)
	}
	return nil
}

// IgnoresEOS reports whether an end-of-sequence token does not end the answer (ignore_eos). A value that is
// neither false nor null counts as true.
func (r *Request) IgnoresEOS() bool {
	v := string(r.Raw("ignore_eos"))
	return v != "" && v != "false" && v != "null"
}

// StopsAt reports whether the request lists the id of a token that ends the answer (stop_token_ids).
func (r *Request) StopsAt(id int) bool {
	ids, _ := Elements(r.Raw("stop_token_ids"))
	return slices.ContainsFunc(ids, func(raw json.RawMessage) bool { return string(raw) == strconv.Itoa(id) })
}

// Limit is the client's maximum of tokens, 0 if only the context bounds them. A completion without one gets
// vLLM's default.
func (r *Request) Limit() int {
	if r.MaxTokens < 0 && r.Kind == Completion {
		return completionDefault
	}
	return max(r.MaxTokens, 0)
}

// completionDefault is vLLM's max_tokens for completions without one.
const completionDefault = 16

// Text is the prompt of a completion of one string.
func (r *Request) Text() []byte {
	raw := r.Raw("prompt")
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	return unquote(nil, raw)
}

// bytesPerToken estimates English and code for Llama-like vocabularies of 128k entries; vendors recommend
// four bytes a token, too.
const bytesPerToken = 4

// EstimateTokens estimates the tokens of n bytes of text.
func EstimateTokens(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// prompts are the prompts in a list of texts, of ids, or of lists of ids. The zero value is one prompt.
type prompts struct {
	n       int  // prompts; 0 is 1
	ids     bool // they are token ids
	size    int  // bytes of the texts, or number of ids
	longest int  // the same of the longest one
}

// readPrompts reads a JSON array. odd is the kind of an element that engines may read in another way, 0 if there is none: all
// must be texts, ids, or lists of ids.
func readPrompts(raw []byte) (p prompts, odd jsontext.Kind) {
	var kind jsontext.Kind
	elements, _ := Elements(raw)
	for _, v := range elements {
		k := jsontext.Value(v).Kind()
		if kind != 0 && k != kind {
			odd = k
		}
		kind = k
		size := len(v)
		switch k {
		case '"':
			size -= len(`""`)
		case '[':
			if i := bytes.IndexAny(v[1:], `[{"`); i >= 0 {
				odd = jsontext.Kind(v[1+i])
			}
			size = bytes.Count(v, []byte{','}) + 1
		case '0':
			size = 1
		default:
			odd = k
		}
		p.n++
		p.size += size
		p.longest = max(p.longest, size)
	}
	if p.ids = kind != '"'; odd == 0 && kind == '0' {
		p.n, p.longest = 1, p.size // one prompt of ids
	}
	return p, odd
}

// share returns how much of all prompts the longest one is, 0 … 1.
func (p *prompts) share() float64 {
	if p.n <= 1 || p.size == 0 {
		return 1
	}
	return float64(p.longest) / float64(p.size)
}

// LongestShare returns how much of all prompts the longest one is, 0 … 1: an engine holds each of them on its own.
func (r *Request) LongestShare() float64 { return r.prompts.share() }

// Sent is the raw value of a top-level field that is forwarded; nil if it is absent or removed.
func (r *Request) Sent(name string) []byte {
	if m, ok := r.member(name); ok && !m.drop {
		return m.value.Of(r.Body)
	}
	return nil
}

// Choices is the number of choices in a whole answer: n for each prompt, independent of best_of.
func (r *Request) Choices() int {
	return max(r.count("n"), 1) * max(r.prompts.n, 1)
}

// Answers is the number of answers that an engine generates: the choices for each prompt, with best_of also those that it
// discards.
func (r *Request) Answers() int { return r.N * max(r.prompts.n, 1) }

// Unshareable returns why an answer to the request may not serve an identical one: "logprobs" were requested,
// "output_fields" that only a backend can fill, or "prompt_kind", several prompts in one request. It is "" if
// the answer may be shared.
func (r *Request) Unshareable() string {
	switch {
	case r.Logprobs:
		return "logprobs"
	case r.shows:
		return "output_fields"
	case r.Kind == Completion && r.prompts.n != 1:
		return "prompt_kind"
	}
	return ""
}

// Sampled reports whether two answers to the request may differ: the temperature is above 0 and there is no
// seed.
func (r *Request) Sampled() bool { return r.Temperature > 0 && !r.HasSeed }

const (
	// A plain prompt is identified by its first bytes: by shortHead bytes, for a template that many prompts
	// share, if the prompt is at least twice as long, and by longHead bytes.
	shortHead = 2 << 10
	longHead  = 16 << 10
)

// Head returns the parts of the prompt with which later prompts probably begin, too: the tools and the
// leading system messages, and the first message after them; of a plain prompt its first bytes. They are raw
// JSON, or nil, and only useful for comparison.
func (r *Request) Head() (system, first []byte) {
	if r.Kind == Chat {
		system = r.system.Of(r.Body)
		if tools := r.Raw("tools"); r.tools && tools != nil {
			system = append(append(make([]byte, 0, len(tools)+len(system)), tools...), system...)
		}
		return system, r.first.Of(r.Body)
	}
	raw := r.Raw("prompt")
	if len(raw) >= 2*shortHead {
		system = raw[:shortHead]
	}
	return system, raw[min(len(system), len(raw)):min(longHead, len(raw))]
}

// System is the leading system messages of a chat as raw JSON; nil if there are none.
func (r *Request) System() []byte { return r.system.Of(r.Body) }

// PromptText is the text of the request's prompt without JSON's escapes: for a chat the texts of its
// messages, one after the other. If it is longer than most bytes, it is the end.
func (r *Request) PromptText(maximum int) []byte {
	out := r.Text() // nothing for a chat
	messages, _ := Elements(r.Raw("messages"))
	for _, message := range messages {
		members, _ := Members(message)
		content := members["content"]
		if isText(content) {
			out = append(unquote(out, content), '\n')
		}
		parts, _ := Elements(content)
		for _, part := range parts {
			if members, _ = Members(part); isText(members["text"]) {
				out = append(unquote(out, members["text"]), '\n')
			}
		}
	}
	return out[max(len(out)-maximum, 0):]
}

// Rescan parses a changed body of a request that was accepted. It refuses nothing that [Scan] has accepted.
func (r *Request) Rescan(body []byte) (*Request, error) {
	const most = math.MaxInt32
	return Scan(r.Kind, body, Limits{
		Depth: most, Fields: most, Messages: most, N: most, Answers: most, Tokens: most, Stops: most, LogitBias: most, Grammar: most,
		Allow: func(string) []string { return AllowableFields() },
	})
}

// Kind is one of the two generation endpoints.
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

// Usage is the token count of an answer. Cached are the prompt tokens that cost nothing, or less, as reported for an
// answer from a cache.
type Usage struct{ Prompt, Completion, Cached int }

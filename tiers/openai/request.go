package openai

import (
	"bytes"
	"math"
	"strconv"
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

	// Own are fields that no engine may get and the gateway serves itself, see [Envelope.Own].
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

	PromptBytes  int // of prompt text
	PromptTokens int // of all prompts: exact for ids, else estimated from the bytes

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

// Clone returns a copy with a body of its own.
func (r *Request) Clone() *Request {
	c := *r
	c.Body = bytes.Clone(r.Body)
	return &c
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
	var in cursor
	in.reset(r.Raw("stop_token_ids"))
	for range in.array() {
		raw, _ := in.value()
		if listed, err := strconv.Atoi(string(raw)); err == nil && listed == id {
			return true
		}
	}
	return false
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
func EstimateTokens(n int) int { return int(math.Ceil(float64(n) / bytesPerToken)) }

package openai

import "math"

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

// bytesPerToken estimates English and code for Llama-like vocabularies of 128k
// entries; four bytes a token is the vendors' own rule of thumb.
const bytesPerToken = 4

// EstimateTokens guesses the tokens of n bytes of text.
func EstimateTokens(n int) int { return int(math.Ceil(float64(n) / bytesPerToken)) }

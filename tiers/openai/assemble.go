package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Why an answer cannot be assembled.
var (
	ErrIncomplete = errors.New("the answer is not complete")
	ErrTooLong    = errors.New("the answer is too long")
	ErrForeign    = errors.New("the answer holds what only its backend understands")
)

// Assembler assembles an answer from the parts that went to the client. If it does not understand a part, the
// answer is unusable ([Assembler.Whole] fails), never incomplete.
type Assembler struct {
	kind       Kind
	maxBytes   int
	numChoices int // choices; 0 is any number
	size       int // bytes of the answer so far
	whole      bool
	plain      bool // text came
	chunks     bool // chunks came
	ended      bool
	err        error

	choices []growing
	usage   Usage
}

// growing is a choice that is being assembled.
type growing struct {
	Choice
	seen  bool
	calls []growingCall
}

type growingCall struct {
	id, name  string
	arguments []byte
}

// The memory of a choice and of a call besides their content, so that a bound on the answer also bounds the
// memory.
const (
	choiceSize = 192
	callSize   = 96
)

// NewAssembler assembles an answer of the given kind, of at most maximum bytes.
func NewAssembler(kind Kind, maximum int) *Assembler {
	return &Assembler{kind: kind, maxBytes: maximum}
}

// Want sets the number of choices that the answer must have. An answer with fewer may look complete: engines
// have lost choices.
func (a *Assembler) Want(choices int) { a.numChoices = choices }

// Text appends text of a plain answer: one choice that consists of text.
func (a *Assembler) Text(b []byte) {
	if a.chunks || a.whole || a.ended {
		a.foreign("text behind chunks")
	}
	if a.err != nil {
		return
	}
	a.plain = true
	if c := a.choiceAt(0); c != nil && a.spend(len(b)) {
		c.seen = true
		c.Text = append(c.Text, b...)
	}
}

// Chunk adds the JSON of a chunk that may contain more than text. After the first one, all chunks must come
// here.
func (a *Assembler) Chunk(raw []byte) {
	if a.whole || a.ended {
		a.foreign("a chunk behind the end")
	}
	a.chunks = true
	a.read(raw)
}

// Body adds a whole JSON answer.
func (a *Assembler) Body(raw []byte) {
	if a.plain || a.chunks || a.whole || a.ended {
		a.foreign("a body behind another answer")
	}
	a.whole, a.ended = true, true
	a.read(raw)
}

// read takes the JSON of a chunk or of a whole answer.
func (a *Assembler) read(raw []byte) {
	if a.err != nil {
		return
	}
	var in Reply
	if json.Unmarshal(raw, &in) != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		a.foreign("JSON of another form")
		return
	}
	if a.nothingElse(in.More, ofNoAccount); in.Usage != nil {
		in.Usage.AddTo(&a.usage)
	}
	for i := range in.Choices {
		if a.choice(&in.Choices[i]); a.err != nil {
			return
		}
	}
}

// End reports the end of the answer: an answer that is not a body is incomplete without it. It gives the
// finish reason of a plain answer, and the usage; without a usage, that of the chunks is kept.
func (a *Assembler) End(e Ending) {
	a.ended = true
	if e.Usage != (Usage{}) {
		a.usage = e.Usage
	}
	if a.err != nil || a.chunks || a.whole {
		return
	}
	if !finishes(e.Finish) {
		a.foreign("finish_reason")
		return
	}
	if c := a.choiceAt(0); c != nil {
		c.seen, c.Finish = true, e.Finish
		a.stop(c, e.Stop)
	}
}

// Whole returns the answer, or why there is none: [ErrIncomplete], [ErrTooLong] or [ErrForeign]. It shares
// the assembler's memory.
func (a *Assembler) Whole() (*Whole, error) {
	if a.err != nil {
		return nil, a.err
	}
	if !a.ended || len(a.choices) == 0 || len(a.choices) < a.numChoices {
		return nil, ErrIncomplete
	}
	if a.numChoices > 0 && len(a.choices) > a.numChoices {
		return nil, fmt.Errorf("%w: more choices than asked for", ErrForeign)
	}
	w := &Whole{Kind: a.kind, Usage: a.usage, Choices: make([]Choice, len(a.choices))}
	for i := range a.choices {
		if err := a.choices[i].finished(&w.Choices[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// finished builds the final choice.
func (c *growing) finished(out *Choice) error {
	switch {
	case !c.seen || c.Finish == "":
		return ErrIncomplete
	case !utf8.Valid(c.Text):
		return fmt.Errorf("%w: text that is not UTF-8", ErrForeign)
	case c.Finish == finishTools && len(c.calls) == 0:
		return fmt.Errorf("%w: tool_calls without any", ErrForeign)
	}
	*out = c.Choice
	for _, k := range c.calls {
		switch {
		case k.id == "" || k.name == "":
			return fmt.Errorf("%w: a call without id or name", ErrForeign)
		case c.Finish != "length" && !jsontext.Value(k.arguments).IsValid():
			return fmt.Errorf("%w: arguments that are not JSON", ErrForeign)
		}
		out.Calls = append(out.Calls, Call{ID: k.id, Type: callType, Name: k.name, Arguments: string(k.arguments)})
	}
	out.Null = len(c.Text) == 0 && (len(c.calls) > 0 || len(c.Reasoning) > 0)
	return nil
}

// fail gives up the answer, and releases its memory.
func (a *Assembler) fail(err error) {
	if a.err == nil {
		a.err, a.choices = err, nil
	}
}

func (a *Assembler) foreign(what string) {
	a.fail(fmt.Errorf("%w: %s", ErrForeign, clip(what, 64)))
}

// spend counts bytes to keep and reports whether they are within the limit.
func (a *Assembler) spend(n int) bool {
	if a.size += n; a.size > a.maxBytes {
		a.fail(ErrTooLong)
	}
	return a.err == nil
}

// choiceAt returns the choice with an index, nil if the answer was given up.
func (a *Assembler) choiceAt(index int) *growing {
	if index < 0 || index >= maxChoices {
		a.foreign("a choice's index")
		return nil
	}
	for len(a.choices) <= index {
		if len(a.choices) > 0 && !a.spend(choiceSize) { // the first is not counted: a plain answer costs only its text
			return nil
		}
		a.choices = append(a.choices, growing{})
	}
	return &a.choices[index]
}

// stop stores a stop_reason, which is a string or a number unless it is null.
func (a *Assembler) stop(c *growing, raw []byte) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if !isStop(raw) {
		a.foreign("stop_reason")
		return
	}
	if a.spend(len(raw)) {
		c.Stop = bytes.Clone(raw)
	}
}

// wholeVersion is the first byte of an encoded answer. ParseWhole refuses all others.
const wholeVersion = 2

// errEncoded is returned for bytes that Append did not write.
var errEncoded = errors.New("not an encoded answer")

// Append encodes the answer for ParseWhole: version, kind, and the answer as clients get it in one piece.
func (w *Whole) Append(dst []byte) []byte {
	return (&Framer{kind: w.Kind}).Whole(append(dst, wholeVersion, byte(w.Kind)), w, nil)
}

// ParseWhole decodes what Append wrote, an answer of an [Assembler]. Anything else is an error.
func ParseWhole(b []byte) (*Whole, error) {
	if len(b) < 2 || b[0] != wholeVersion || Kind(b[1]) > Completion {
		return nil, errEncoded
	}
	a := NewAssembler(Kind(b[1]), math.MaxInt)
	a.Body(b[2:])
	return a.Whole()
}

// Whole is a complete answer, streamed or not: it can be written as a JSON body and as a stream.
type Whole struct {
	Kind    Kind
	Choices []Choice
	Usage   Usage
}

// Choice is one of the answer's choices.
type Choice struct {
	Text      []byte // content, or text of a completion
	Null      bool   // the content is null: there are only calls or reasoning
	Reasoning []byte // separated from the text by a reasoning parser
	As        string // under which name it came: reasoning_content, reasoning or both; "" without any
	Calls     []Call
	Finish    string // one of ends
	Stop      []byte // stop_reason as raw JSON; nil is null
}

// Call is a call of a tool.
type Call struct{ ID, Type, Name, Arguments string }

// Bounds of a supported answer: more choices, or calls per choice, than any client requests.
const (
	maxChoices = 128
	maxCalls   = 128
)

// ends are the supported finish reasons. With the last ones the answer is incomplete.
var ends = []string{"stop", "length", finishTools, "content_filter", "repetition"}

// finishes reports whether reason is supported.
func finishes(reason string) bool { return slices.Contains(ends, reason) }

// Complete reports whether a choice is complete, so that the answer may be used again.
func (c *Choice) Complete() bool { return slices.Contains(ends[:3], c.Finish) }

// finishTools is the finish_reason of an answer that calls tools.
const finishTools = "tool_calls"

// The names of reasoning: the older one, vLLM's since 0.16, and both, with the same text, in some versions
// before it.
const (
	asReasoningContent = "reasoning_content"
	asReasoning        = "reasoning"
	asBoth             = "both"
)

// isStop reports whether raw JSON may be a stop_reason: a string, or a token id.
func isStop(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '"' {
		return jsontext.Value(raw).IsValid() && raw[len(raw)-1] == '"'
	}
	id, err := strconv.ParseUint(string(raw), 10, 63)
	return err == nil && len(raw) == len(strconv.FormatUint(id, 10))
}

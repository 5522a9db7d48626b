package openai

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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

// readWhole reads an answer in one piece, of which nothing may be left out. Its choices may be incomplete.
func readWhole(kind Kind, raw []byte) (*Whole, error) {
	var in Reply
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, foreign("JSON of another form")
	}
	if name := unread(in.More, ofNoAccount); name != "" {
		return nil, foreign(name)
	}
	w := &Whole{Kind: kind, Choices: make([]Choice, len(in.Choices))}
	if in.Usage != nil {
		in.Usage.AddTo(&w.Usage)
	}
	for i := range in.Choices {
		c := &in.Choices[i]
		if c.Index == nil || int(*c.Index) >= len(w.Choices) || w.Choices[*c.Index].Finish != "" {
			return nil, foreign("a choice's index")
		}
		if name := unread(c.More, nil); name != "" || (kind == Chat) != (c.Message != nil) {
			return nil, foreign("content of another form: " + name)
		}
		var err error
		if w.Choices[*c.Index], err = c.read(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// saysOnce reports whether a choice has a message or a text: what has both could be read in two ways.
func (r *ReplyChoice) saysOnce() bool {
	return r.Delta == nil && (r.Message == nil) != (r.Text == nil)
}

// read reads a choice of an answer in one piece. It does not look at members that it does not know.
func (r *ReplyChoice) read() (c Choice, err error) {
	switch {
	case !r.saysOnce():
		return c, foreign("content of another form")
	case r.Message == nil:
		c.Text = append(c.Text, *r.Text...)
	default:
		err = r.Message.read(&c)
	}
	stop := r.Stop
	if m := r.Matched; len(m) > 0 && m.Kind() != '0' && m.Kind() != 'n' {
		stop = m
	}
	if c.Finish = r.Finish; err == nil {
		c.Stop, err = stopReason(stop)
	}
	return c, err
}

// read reads the message of a choice. Reasoning may come under both names at once, from engine versions between the two; then
// both are written again. Different texts are not supported.
func (m *ReplyMessage) read(c *Choice) error {
	if name := unread(m.More, nil); name != "" || m.Refusal != "" || m.Role != "" && m.Role != "assistant" {
		return foreign("a message with more: " + name)
	}
	c.Text = append(c.Text, m.Content...)
	switch newer, older := m.Reasoning, m.ReasoningContent; {
	case newer != "" && older != "" && newer != older:
		return foreign("reasoning of two texts")
	case newer != "" && older != "":
		c.As, c.Reasoning = asBoth, []byte(newer)
	case newer != "":
		c.As, c.Reasoning = asReasoning, []byte(newer)
	case older != "":
		c.As, c.Reasoning = asReasoningContent, []byte(older)
	}
	for i := range m.Calls {
		k := &m.Calls[i]
		if k.ID == "" || k.Function.Name == "" || k.Type != "" && k.Type != callType || k.Index != nil && int(*k.Index) != i || i >= maxCalls {
			return foreign("a call without id or name, or out of place")
		}
		if name := unread(k.More, nil) + unread(k.Function.More, nil); name != "" {
			return foreign(name)
		}
		c.Calls = append(c.Calls, Call{ID: k.ID, Type: callType, Name: k.Function.Name, Arguments: k.Function.Arguments})
	}
	c.Null = len(c.Text) == 0 && len(c.Calls)+len(c.Reasoning) > 0
	return nil
}

// unread returns the first of the further members of an object that means something; known tells names that never do.
func unread(more []byte, known func(name []byte) bool) (first string) {
	if len(more) > 0 {
		eachMember(more, func(name, value []byte) {
			if first == "" && !harmless(value) && (known == nil || !known(name)) {
				first = string(name)
			}
		})
	}
	return first
}

// stopReason reads a stop_reason, which is a string or a token id; nil for null.
func stopReason(raw []byte) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if _, isID := tokenID(raw); !isID && (!isText(raw) || !jsontext.Value(raw).IsValid()) {
		return nil, foreign("stop_reason")
	}
	return bytes.Clone(raw), nil
}

// check returns what a choice lacks of a complete one.
func (c *Choice) check() error {
	switch {
	case c.Finish == "":
		return ErrIncomplete
	case !slices.Contains(ends, c.Finish):
		return foreign("finish_reason")
	case !utf8.Valid(c.Text):
		return foreign("text that is not UTF-8")
	case c.Finish == finishTools && len(c.Calls) == 0:
		return foreign("tool_calls without any")
	}
	for _, k := range c.Calls {
		if c.Finish != "length" && !jsontext.Value(k.Arguments).IsValid() {
			return foreign("arguments that are not JSON")
		}
	}
	return nil
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

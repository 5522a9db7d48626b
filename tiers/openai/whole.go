package openai

import (
	"slices"
	"strconv"

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

package openai

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Whole is a complete answer, whichever way it came: from it both a JSON body and a stream can be
// written.
type Whole struct {
	Kind    Kind
	Choices []Choice
	Usage   Usage
}

// Choice is one of the answer's choices.
type Choice struct {
	Text      []byte // content, or text of a completion
	Null      bool   // the content is null: there are only calls or reasoning
	Reasoning []byte // what a reasoning parser took out of the text
	As        string // under which name it came: reasoning_content, reasoning or both; "" without any
	Calls     []Call
	Finish    string // one of ends
	Stop      []byte // stop_reason as raw JSON; nil is null
}

// Call is a call of a tool.
type Call struct{ ID, Type, Name, Arguments string }

// Bounds of an answer that is understood: more choices, or more calls in one of them, than any client asks for.
const (
	maxChoices = 128
	maxCalls   = 128
)

// ends are how an answer may end that is understood. The last ones did not say all they were asked for.
var ends = []string{"stop", "length", finishTools, "content_filter", "repetition"}

// finishes reports whether an answer may end so.
func finishes(reason string) bool { return slices.Contains(ends, reason) }

// Complete reports whether a choice says all it was asked for: an answer that may be given again.
func (c *Choice) Complete() bool { return slices.Contains(ends[:3], c.Finish) }

// finishTools is the finish_reason of an answer that calls tools.
const finishTools = "tool_calls"

// The names under which reasoning comes: the older, vLLM's since 0.16, and both, with the same text, in some before it.
const (
	asReasoningContent = "reasoning_content"
	asReasoning        = "reasoning"
	asBoth             = "both"
)

// isStop reports whether raw JSON may be a stop_reason: a string, or the id of a token.
func isStop(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '"' {
		return jsontext.Value(raw).IsValid() && raw[len(raw)-1] == '"'
	}
	id, err := strconv.ParseUint(string(raw), 10, 63)
	return err == nil && len(raw) == len(strconv.FormatUint(id, 10))
}

package openai

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
	As        string // under which name it came: reasoning_content or reasoning; "" without any
	Calls     []Call
	Finish    string // stop, length or tool_calls
	Stop      []byte // stop_reason as raw JSON; nil is null
}

// Call is a call of a tool.
type Call struct{ ID, Type, Name, Arguments string }

// Bounds of an answer that is understood: more choices, or more calls in one of them, than any client asks for.
const (
	mostChoices = 128
	mostCalls   = 128
)

// finishes are how an answer may have ended that says all it was asked for.
func finishes(reason string) bool {
	return reason == "stop" || reason == "length" || reason == finishTools
}

// finishTools is the finish_reason of an answer that calls tools.
const finishTools = "tool_calls"

// The names under which reasoning comes: the older and vLLM's since 0.16.
const (
	asReasoningContent = "reasoning_content"
	asReasoning        = "reasoning"
)

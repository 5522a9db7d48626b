package clientapi

import (
	"cmp"
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Chat is the chat completion that a request becomes.
type Chat struct {
	In       Object
	Members  map[string]any
	Messages []any
	Tools    []ChatTool
	Dropped  Dropped
	Thinking Thinking
	Stream   bool

	DroppedTool string // the place of the type of the first tool that was dropped; "" for none
}

// ChatTool is the function of a tool.
type ChatTool struct {
	Name    string
	Members map[string]json.RawMessage
}

// NewChat returns an empty chat for a body that [openai.Peek] has read.
func NewChat(body []byte) Chat { return Chat{In: ReadObject(body), Members: map[string]any{}} }

// Request returns the translated request, without what its answer needs; nil if it has failed.
func (c *Chat) Request() *Request {
	if c.In.Err() != nil {
		return nil
	}
	if c.Members["messages"] = c.Messages; c.Stream {
		c.Members["stream"], c.Members["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	for _, f := range c.Tools {
		tools, _ := c.Members["tools"].([]any)
		c.Members["tools"] = append(tools, Function(f.Name, f.Members))
	}
	return &Request{Chat: Encode(c.Members), Stream: c.Stream, Dropped: c.Dropped, Thinking: c.Thinking}
}

// Say adds a message.
func (c *Chat) Say(role string, content any) {
	c.Messages = append(c.Messages, map[string]any{"role": role, "content": content})
}

// Drop drops the members of an object that only tune the provider's servers, and notes it.
func (c *Chat) Drop(o Object, names []string) {
	for _, name := range names {
		if o.Has(name) {
			c.Dropped.Add(o.Member(name))
		}
	}
}

// DropTool drops a tool that only the provider's servers could run.
func (c *Chat) DropTool(o Object) {
	c.Dropped.Add(o.At + " " + o.Text("type"))
	c.DroppedTool = cmp.Or(c.DroppedTool, o.Member("type"))
}

// NeedDroppedTool fails for a request that demands a tool that was dropped.
func (c *Chat) NeedDroppedTool() {
	c.In.Fail(&EngineOnlyError{Field: c.DroppedTool, Reason: ReasonTool})
}

// HasTool reports whether the chat has a tool.
func (c *Chat) HasTool(name string) bool {
	return slices.ContainsFunc(c.Tools, func(f ChatTool) bool { return f.Name == name })
}

// Function returns a function as chat completions write it: its members are one level deeper.
func Function(name string, members map[string]json.RawMessage) map[string]any {
	members["name"] = Encode(name)
	return map[string]any{"type": "function", "function": members}
}

// Call returns a call of a function.
func Call(id, name, arguments string) map[string]any {
	call := Function(name, map[string]json.RawMessage{"arguments": Encode(arguments)})
	call["id"] = id
	return call
}

// TextPart returns a content part.
func TextPart(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// Content returns the content of a message with these parts: a string if there is only one text, or nothing.
func Content(parts []any) any {
	switch {
	case len(parts) == 0:
		return ""
	case len(parts) == 1:
		if m, _ := parts[0].(map[string]any); m["type"] == "text" {
			return m["text"]
		}
	}
	return parts
}

// encoding takes what the reader of the request has accepted.
var encoding = jsonv2.JoinOptions(jsonv2.Deterministic(true), jsonv2.FormatNilSliceAsNull(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Encode writes what JSON has a form for, without escapes for HTML; the members of maps are sorted.
func Encode(v any) json.RawMessage {
	b, _ := jsonv2.Marshal(v, encoding) // texts, maps and parts of the request have a form
	return b
}

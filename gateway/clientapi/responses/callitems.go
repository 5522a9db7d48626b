package responses

import (
	"encoding/json"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// callItem is the item of a call, under the name that the client knows.
type callItem struct {
	toolName
	id, callID, arguments string
}

// callOf is the item of a call of the chat that comes next.
func (e *encoder) callOf(c *clientapi.CallPart) callItem {
	n, ok := e.names[c.Name]
	if !ok {
		n = toolName{name: c.Name}
	}
	item := callItem{toolName: n, callID: c.ID, arguments: c.Arguments}
	item.id = e.itemID(item.kind())
	return item
}

func (c *callItem) kind() string {
	if c.custom {
		return customCall
	}
	return functionCall
}

// argument is the member that holds what the tool is called with, and the name of the events about it.
func (c *callItem) argument() (member, events string) {
	if c.custom {
		return customInput, "response.custom_tool_call_input."
	}
	return "arguments", "response.function_call_arguments."
}

// value is what the tool is called with. The text of a custom tool is the member of an object; a model that wrote no such object
// meant all of it.
func (c *callItem) value() string {
	var object map[string]json.RawMessage
	var text string
	if c.custom && json.Unmarshal([]byte(c.arguments), &object) == nil && json.Unmarshal(object[customInput], &text) == nil {
		return text
	}
	return c.arguments
}

// appendTo appends the item; one that only begins has no value.
func (c *callItem) appendTo(dst []byte, status string, whole bool) []byte {
	dst = openai.AppendQuote(append(dst, `{"id":`...), c.id)
	dst = openai.AppendQuote(append(dst, `,"type":"`+c.kind()+`","status":"`+status+`","call_id":`...), c.callID)
	if c.namespace != "" {
		dst = openai.AppendQuote(append(dst, `,"namespace":`...), c.namespace)
	}
	dst = openai.AppendQuote(append(dst, `,"name":`...), c.name)
	member, _ := c.argument()
	value := ""
	if whole {
		value = c.value()
	}
	return append(openai.AppendQuote(append(dst, `,"`+member+`":`...), value), '}')
}

// writer writes items behind dst.
type writer struct {
	*encoder
	dst    []byte
	status string // of the last call
}

// Texts implements [clientapi.Writer].
func (w *writer) Texts(p *clientapi.Part) error {
	before := w.items
	w.dst = w.delta(w.dst, w.reasoning(), p.Reasoning)
	w.dst = w.delta(w.dst, outputText, p.Text)
	w.dst = w.delta(w.dst, refusal, p.Refusal)
	return w.Bound.Keep(len(p.Reasoning) + len(p.Text) + len(p.Refusal) + (w.items-before)*itemBytes)
}

// BeginCall implements [clientapi.Writer].
func (w *writer) BeginCall(c *clientapi.CallPart) {
	w.dst = w.close(w.dst, completed)
	item := w.callOf(c)
	w.custom = item.custom
	w.dst = w.itemEvent(w.dst, "added", item.appendTo(nil, inProgress, false))
}

// MoreOfCall implements [clientapi.Writer]. The text of a custom tool goes out when it is whole: it is in an object.
func (w *writer) MoreOfCall(arguments string) {
	if w.custom {
		return
	}
	dst := w.inItem(w.event(w.dst, "response.function_call_arguments.delta"), w.itemID(functionCall))
	w.dst = append(openai.AppendQuote(append(dst, `,"delta":`...), arguments), eventEnd...)
}

// EndCall implements [clientapi.Writer]. The arguments are a string, which clients read as they do that of a chat.
func (w *writer) EndCall(c *clientapi.CallPart, last bool) error {
	item, dst := w.callOf(c), w.dst
	member, events := item.argument()
	value := item.value()
	if item.custom {
		dst = w.inItem(w.event(dst, events+"delta"), item.id)
		dst = append(openai.AppendQuote(append(dst, `,"delta":`...), value), eventEnd...)
	}
	dst = w.inItem(w.event(dst, events+"done"), item.id)
	if !item.custom {
		dst = openai.AppendQuote(append(dst, `,"name":`...), item.name)
	}
	dst = append(openai.AppendQuote(append(dst, `,"`+member+`":`...), value), eventEnd...)
	status := completed
	if last {
		status = w.status
	}
	whole := item.appendTo(nil, status, true)
	w.dst = w.itemEvent(dst, "done", whole)
	w.ended(whole)
	return nil
}

package responses

import (
	"strconv"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// The kinds of content, and of what has none, as events name them.
const (
	reasoning    = "reasoning_text"
	outputText   = "output_text"
	refusal      = "refusal"
	functionCall = "function_call"
)

// itemPrefixes begin the ids of items, by kind.
var itemPrefixes = map[string]string{reasoning: "rs_", outputText: "msg_", refusal: "msg_", functionCall: "fc_"}

// itemBytes is what an item takes besides its text, about.
const itemBytes = 256

// textItem is an output item of text.
type textItem struct {
	kind, id string
	text     []byte
}

// itemID is the id of the item that comes next.
func (e *encoder) itemID(kind string) string {
	return itemPrefixes[kind] + e.id + "_" + strconv.Itoa(e.items)
}

// ended adds an item to the output.
func (e *encoder) ended(item []byte) {
	if e.items > 0 {
		e.output = append(e.output, ',')
	}
	e.output = append(e.output, item...)
	e.items++
}

// appendTo appends the item; part is its content, nil for none.
func (t *textItem) appendTo(dst []byte, status string, part []byte) []byte {
	dst = openai.AppendQuote(append(dst, `{"id":`...), t.id)
	if t.kind == reasoning {
		dst = append(dst, `,"type":"reasoning","summary":[]`...)
	} else {
		dst = append(dst, `,"type":"message","role":"assistant"`...)
	}
	dst = append(dst, `,"status":"`+status+`","content":[`...)
	return append(append(dst, part...), "]}"...)
}

// appendPart appends the content part.
func (t *textItem) appendPart(dst []byte) []byte {
	dst = append(dst, `{"type":"`+t.kind+`"`...)
	if t.kind == outputText {
		dst = append(dst, `,"annotations":[]`...)
	}
	return append(t.appendText(dst), '}')
}

// appendText appends the members that a part has in common with the event that ends its text.
func (t *textItem) appendText(dst []byte) []byte {
	switch t.kind {
	case refusal:
		return openai.AppendQuote(append(dst, `,"refusal":`...), string(t.text))
	case outputText:
		dst = append(dst, `,"logprobs":[]`...)
	}
	return openai.AppendQuote(append(dst, `,"text":`...), string(t.text))
}

// delta appends text to the open item, or opens one of its kind.
func (e *encoder) delta(dst []byte, kind, text string) []byte {
	if text == "" {
		return dst
	}
	if e.open == nil || e.open.kind != kind {
		dst = e.close(dst, completed)
		e.open = &textItem{kind: kind, id: e.itemID(kind)}
		dst = e.itemEvent(dst, "added", e.open.appendTo(nil, inProgress, nil))
		dst = e.partEvent(dst, "response.content_part.added")
		dst = append(e.open.appendPart(append(dst, `,"part":`...)), eventEnd...)
	}
	e.open.text = append(e.open.text, text...)
	dst = openai.AppendQuote(append(e.partEvent(dst, "response."+kind+".delta"), `,"delta":`...), text)
	if kind == outputText {
		dst = append(dst, `,"logprobs":[]`...)
	}
	return append(dst, eventEnd...)
}

// close ends the open item.
func (e *encoder) close(dst []byte, status string) []byte {
	t := e.open
	if t == nil {
		return dst
	}
	part := t.appendPart(nil)
	dst = append(t.appendText(e.partEvent(dst, "response."+t.kind+".done")), eventEnd...)
	dst = append(append(e.partEvent(dst, "response.content_part.done"), `,"part":`...), part...)
	item := t.appendTo(nil, status, part)
	dst = e.itemEvent(append(dst, eventEnd...), "done", item)
	e.ended(item)
	e.open = nil
	return dst
}

// itemEvent appends an event of an item: "added" or "done".
func (e *encoder) itemEvent(dst []byte, what string, item []byte) []byte {
	dst = append(e.event(dst, "response.output_item."+what), `,"output_index":`...)
	dst = append(strconv.AppendInt(dst, int64(e.items), 10), `,"item":`...)
	return append(append(dst, item...), eventEnd...)
}

// partEvent begins an event of the open item's content.
func (e *encoder) partEvent(dst []byte, name string) []byte {
	return append(e.inItem(e.event(dst, name), e.open.id), `,"content_index":0`...)
}

// inItem appends the members that name the item which is written.
func (e *encoder) inItem(dst []byte, id string) []byte {
	dst = openai.AppendQuote(append(dst, `,"item_id":`...), id)
	return strconv.AppendInt(append(dst, `,"output_index":`...), int64(e.items), 10)
}

// appendCall appends the item of a call.
func appendCall(dst []byte, id string, c *clientapi.CallPart, status string) []byte {
	dst = openai.AppendQuote(append(dst, `{"id":`...), id)
	dst = openai.AppendQuote(append(dst, `,"type":"function_call","status":"`+status+`","call_id":`...), c.ID)
	dst = openai.AppendQuote(append(dst, `,"name":`...), c.Name)
	return append(openai.AppendQuote(append(dst, `,"arguments":`...), c.Arguments), '}')
}

// callWriter writes calls as items behind dst.
type callWriter struct {
	*encoder
	dst    []byte
	status string // of the last call
}

// BeginCall implements [clientapi.CallWriter].
func (w *callWriter) BeginCall(c *clientapi.CallPart) {
	w.dst = w.close(w.dst, completed)
	w.dst = w.itemEvent(w.dst, "added", appendCall(nil, w.itemID(functionCall), c, inProgress))
}

// MoreOfCall implements [clientapi.CallWriter].
func (w *callWriter) MoreOfCall(arguments string) {
	dst := w.inItem(w.event(w.dst, "response.function_call_arguments.delta"), w.itemID(functionCall))
	w.dst = append(openai.AppendQuote(append(dst, `,"delta":`...), arguments), eventEnd...)
}

// EndCall implements [clientapi.CallWriter]. The arguments are a string, which clients read as they do that of a chat.
func (w *callWriter) EndCall(c *clientapi.CallPart, last bool) error {
	id := w.itemID(functionCall)
	dst := w.inItem(w.event(w.dst, "response.function_call_arguments.done"), id)
	dst = openai.AppendQuote(append(dst, `,"name":`...), c.Name)
	dst = append(openai.AppendQuote(append(dst, `,"arguments":`...), c.Arguments), eventEnd...)
	status := completed
	if last {
		status = w.status
	}
	item := appendCall(nil, id, c, status)
	w.dst = w.itemEvent(dst, "done", item)
	w.ended(item)
	return nil
}

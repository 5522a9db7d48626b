package responses

import (
	"strconv"

	"github.com/foregate/foregate/tiers/openai"
)

// The kinds of content, and of what has none, as events name them.
const (
	reasoning    = "reasoning_text"
	summary      = "reasoning_summary_text"
	outputText   = "output_text"
	refusal      = "refusal"
	functionCall = "function_call"
	customCall   = "custom_tool_call"
)

// itemPrefixes begin the ids of items, by kind.
var itemPrefixes = map[string]string{reasoning: "rs_", summary: "rs_", outputText: "msg_", refusal: "msg_", functionCall: "fc_", customCall: "ctc_"}

// itemBytes is what an item takes besides its text, about.
const itemBytes = 256

// textItem is an output item of text.
type textItem struct {
	kind, id string
	text     []byte
}

// reasoning is the kind of reasoning in the answer.
func (f *form) reasoning() string {
	if f.summary {
		return summary
	}
	return reasoning
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
	switch t.kind {
	case summary:
		dst = append(append(append(dst, `,"type":"reasoning","summary":[`...), part...), ']')
		part = nil
	case reasoning:
		dst = append(dst, `,"type":"reasoning","summary":[]`...)
	default:
		dst = append(dst, `,"type":"message","role":"assistant"`...)
	}
	dst = append(dst, `,"status":"`+status+`","content":[`...)
	return append(append(dst, part...), "]}"...)
}

// appendPart appends the content part.
func (t *textItem) appendPart(dst []byte) []byte {
	switch t.kind {
	case summary:
		dst = append(dst, `{"type":"summary_text"`...)
	case outputText:
		dst = append(dst, `{"type":"output_text","annotations":[]`...)
	default:
		dst = append(dst, `{"type":"`+t.kind+`"`...)
	}
	return append(t.appendText(dst), '}')
}

// partEvents begin the names of the events that begin and end the part.
func (t *textItem) partEvents() string {
	if t.kind == summary {
		return "response.reasoning_summary_part."
	}
	return "response.content_part."
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
		dst = e.partEvent(dst, e.open.partEvents()+"added")
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
	dst = append(append(e.partEvent(dst, t.partEvents()+"done"), `,"part":`...), part...)
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
	dst = e.inItem(e.event(dst, name), e.open.id)
	if e.open.kind == summary {
		return append(dst, `,"summary_index":0`...)
	}
	return append(dst, `,"content_index":0`...)
}

// inItem appends the members that name the item which is written.
func (e *encoder) inItem(dst []byte, id string) []byte {
	dst = openai.AppendQuote(append(dst, `,"item_id":`...), id)
	return strconv.AppendInt(append(dst, `,"output_index":`...), int64(e.items), 10)
}

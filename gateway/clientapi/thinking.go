package clientapi

import (
	"bytes"
	"slices"
	"strconv"
)

// maxDropped is how many fields of a request are told as dropped, and maxDroppedBytes how much of each.
const (
	maxDropped      = 16
	maxDroppedBytes = 64
)

// Dropped names what of a request has no effect here, in the API's own names: 16 at most, of up to 64 bytes each.
type Dropped []string

// Add adds a field, once.
func (d *Dropped) Add(field string) {
	field = field[:min(len(field), maxDroppedBytes)]
	if len(*d) < maxDropped && !slices.Contains(*d, field) {
		*d = append(*d, field)
	}
}

// Thinking is what a request says of thinking. It reaches engines that think, and is dropped for others.
type Thinking struct {
	Fields []string // in the API's own names, for the receipt; none if the request says nothing
	On     bool     // the model is to think
	Off    bool     // it is not to think
	Effort string   // low, medium or high; "" for none
	Budget int      // tokens; 0 for none
}

// efforts are how much a model may think, in the APIs' words, and what engines call them: those that know no more than high.
var efforts = map[string]string{"none": "", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

// ThinkingOf is what an effort in a member says of thinking: none is not to think, and "" says nothing.
func ThinkingOf(o Object, name string) Thinking {
	effort := o.Text(name)
	if effort == "" {
		return Thinking{}
	}
	told, known := efforts[effort]
	if !known {
		o.BadValue(name, "is none of none, minimal, low, medium, high, xhigh, max.")
	}
	return Thinking{Fields: []string{o.Member(name)}, Off: told == "", Effort: told}
}

// TellThinking adds to the chat completion what the request says of thinking, if the target thinks; else that is dropped.
// It is called once.
func (r *Request) TellThinking(thinks bool) {
	if thinks {
		r.Chat = r.Thinking.appendTo(r.Chat)
		return
	}
	for _, field := range r.Thinking.Fields {
		r.Dropped.Add(field)
	}
}

// appendTo appends the members by which engines that think are told. Engines ignore those that they do not know: only
// llama.cpp has a budget that needs no setting of the engine.
func (t *Thinking) appendTo(chat []byte) []byte {
	if !t.On && !t.Off && t.Effort == "" {
		return chat
	}
	chat = bytes.TrimSuffix(chat, []byte("}"))
	if t.On || t.Off {
		chat = strconv.AppendBool(append(chat, `,"chat_template_kwargs":{"enable_thinking":`...), t.On)
		chat = append(chat, '}')
	}
	if t.Effort != "" {
		chat = append(chat, `,"reasoning_effort":"`+t.Effort+`"`...)
	}
	if t.Budget > 0 {
		chat = strconv.AppendInt(append(chat, `,"thinking_budget_tokens":`...), int64(t.Budget), 10)
	}
	return append(chat, '}')
}

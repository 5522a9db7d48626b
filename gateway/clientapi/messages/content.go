package messages

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// turn is one message's content, sorted by what a chat completion does with it. Each list is JSON with a comma behind every element.
type turn struct {
	parts   []byte // content parts
	count   int    // of them
	calls   []byte // tool calls
	results []byte // tool messages
	dropped *clientapi.Dropped
}

// systemAt is where the system text is. Claude Code begins it with a block for the provider's accounts, at billingAt, which
// begins with billing.
const (
	systemAt  = "system"
	billingAt = "system[0]"
	billing   = "x-anthropic-billing-header:"
)

// textHead is a text part up to its text.
const textHead = `{"type":"text","text":`

// messages appends the system text and the conversation.
func (t *translator) messages(dst []byte) []byte {
	o := t.in
	last := len(o.List("messages")) - 1
	if last < 0 {
		o.BadValue("messages", "is required, and is not empty.")
	}
	dst = append(dst, `,"messages":[`...)
	if o.Has(systemAt) {
		in := turn{dropped: &t.dropped}
		in.read(o, systemAt, "system")
		dst = in.appendTo(dst, "system")
	}
	for i, m := range o.Objects("messages") {
		dst = t.message(dst, m, i == last)
	}
	return closed(dst)
}

// message appends one message of the conversation, with a comma. Instructions of the system may stand anywhere: they stay there.
func (t *translator) message(dst []byte, m clientapi.Object, last bool) []byte {
	m.Only("role", "content")
	role := m.Required("role")
	if role != "user" && role != "assistant" && role != "system" {
		m.BadValue("role", "is none of user, assistant, system.")
	}
	if role == "assistant" && last {
		m.EngineOnly("role", clientapi.ReasonPrefill)
	}
	m.Need("content")
	in := turn{dropped: &t.dropped}
	in.read(m, "content", role)
	return in.appendTo(dst, role)
}

// closed ends an array whose elements have a comma behind them.
func closed(dst []byte) []byte { return append(bytes.TrimSuffix(dst, []byte(",")), ']') }

// appendTo appends the chat messages of the turn, each with a comma: results of tools come before the user's own words.
func (t *turn) appendTo(dst []byte, role string) []byte {
	dst = append(dst, t.results...)
	if t.count == 0 && len(t.calls) == 0 && (len(t.results) > 0 || role == "system") {
		return dst
	}
	dst = append(dst, `{"role":"`+role+`","content":`...)
	if t.count > 0 || len(t.calls) == 0 {
		dst = t.appendContent(dst)
	} else {
		dst = append(dst, "null"...) // as OpenAI's clients send it back, and the Responses API's requests have it: one key of the cache
	}
	if len(t.calls) > 0 {
		dst = closed(append(append(dst, `,"tool_calls":[`...), t.calls...))
	}
	return append(dst, "},"...)
}

// appendContent appends the parts: a string if there is only one text.
func (t *turn) appendContent(dst []byte) []byte {
	text, plain := bytes.CutPrefix(t.parts, []byte(textHead))
	switch {
	case t.count == 0:
		return append(dst, `""`...)
	case t.count == 1 && plain:
		return append(dst, bytes.TrimSuffix(text, []byte("},"))...)
	}
	return closed(append(append(dst, '['), t.parts...))
}

// addText adds a text part.
func (t *turn) addText(s string) {
	t.parts = append(openai.AppendQuote(append(t.parts, textHead...), s), "},"...)
	t.count++
}

// read reads a member that is content: a string or blocks.
func (t *turn) read(of clientapi.Object, name, role string) {
	var s string
	switch raw := of.Raw(name); {
	case of.Err() != nil:
	case json.Unmarshal(raw, &s) == nil:
		t.addText(s)
	case raw[0] != '[':
		of.BadType(name, "is neither a string nor an array.")
	default:
		for _, b := range of.Objects(name) {
			t.block(b, role)
		}
	}
}

// block adds one block, whose members [openai.Peek] has accepted.
func (t *turn) block(b clientapi.Object, role string) {
	fromClient := role == "user" || role == "tool"
	switch kind := b.Required("type"); {
	case kind == "text":
		b.Need("text")
		s := b.Text("text")
		if b.At == billingAt && strings.HasPrefix(s, billing) {
			t.dropped.Add(b.At) // it differs between conversations, whose prefix would be cold
			return
		}
		t.addText(s)
	case kind == "image" && fromClient:
		t.image(b)
	case kind == "tool_use" && role == "assistant":
		t.call(b)
	case kind == "tool_result" && role == "user":
		t.result(b)
	case (kind == "thinking" || kind == "redacted_thinking") && role == "assistant": // of any model, with any signature: it reaches no engine
	case kind == "document" && fromClient:
		t.document(b)
	case kind == "search_result" && fromClient: // what a search of the client's has found: its title and source, then its text
		t.headings(b, "title", "source")
		b.Need("content")
		t.read(b, "content", "tool")
	case kind == "tool_reference" && role == "tool":
		t.addText(b.Required("tool_name"))
	case (kind == "tool_addition" || kind == "tool_removal") && role == "system":
		t.dropped.Add(b.Member("type") + " " + kind) // all tools are offered all the time
	case role == "system" || kind == "image" || kind == "tool_use" || kind == "tool_result":
		b.BadValue("type", "is not allowed in this place.")
	default:
		b.EngineOnly("type", clientapi.ReasonNoChat)
	}
}

// document adds a document whose text is in the request: its title and context, then its text. Files and addresses must be
// read or fetched, which nothing here does.
func (t *turn) document(b clientapi.Object) {
	t.headings(b, "title", "context")
	source := b.Object("source")
	switch source.Required("type") {
	case "text":
		t.addText(source.Text("data"))
	case "content":
		source.Need("content")
		t.read(source, "content", "tool")
	default:
		source.EngineOnly("type", clientapi.ReasonNoChat)
	}
}

// headings adds members that are texts, and notes that nothing is cited.
func (t *turn) headings(b clientapi.Object, names ...string) {
	for _, name := range names {
		if text := b.Text(name); text != "" {
			t.addText(text)
		}
	}
	if b.Object("citations").Flag("enabled") {
		t.dropped.Add(b.Member("citations"))
	}
}

// image adds an image, which is in the request: [openai.Peek] refuses one that must be fetched.
func (t *turn) image(b clientapi.Object) {
	s := b.Object("source")
	t.parts = openai.AppendQuote(append(t.parts, `{"type":"image_url","image_url":{"url":`...), "data:"+s.Required("media_type")+";base64,"+s.Required("data"))
	t.parts = append(t.parts, "}},"...)
	t.count++
}

// call adds a call that the assistant made.
func (t *turn) call(b clientapi.Object) {
	id, name := b.Required("id"), b.Required("name")
	if b.NeedObject("input"); b.Err() != nil {
		return
	}
	// The order of members is that of the package responses: some templates print a call as it is, and the key of the cache keeps it.
	t.calls = openai.AppendQuote(append(t.calls, `{"function":{"arguments":`...), string(clientapi.AppendCompact(nil, b.Raw("input"))))
	t.calls = openai.AppendQuote(append(t.calls, `,"name":`...), name)
	t.calls = append(openai.AppendQuote(append(t.calls, `},"id":`...), id), `,"type":"function"},`...)
}

// result adds what a tool returned.
func (t *turn) result(b clientapi.Object) {
	id := b.Required("tool_use_id")
	in := turn{dropped: t.dropped}
	if b.Flag("is_error") {
		in.addText("Error:")
	}
	if b.Has("content") {
		in.read(b, "content", "tool")
	}
	if b.Err() != nil {
		return
	}
	t.results = openai.AppendQuote(append(t.results, `{"role":"tool","tool_call_id":`...), id)
	t.results = append(in.appendContent(append(t.results, `,"content":`...)), "},"...)
}

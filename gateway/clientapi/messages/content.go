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
func (t *translator) messages(dst []byte) ([]byte, error) {
	o := t.in
	const at = "messages"
	l, err := o.List(at)
	if err != nil {
		return nil, err
	}
	if len(l) == 0 {
		return nil, clientapi.BadValue(at, "is required, and is not empty.")
	}
	dst = append(dst, `,"messages":[`...)
	if o.Has("system") {
		in := turn{dropped: &t.dropped}
		if err := in.read(o.Raw("system"), systemAt, "system"); err != nil {
			return nil, err
		}
		dst = in.appendTo(dst, "system")
	}
	for i, raw := range l {
		m, err := clientapi.ReadObject(raw, clientapi.Element(at, i))
		if err != nil {
			return nil, err
		}
		if dst, err = t.message(dst, m, i == len(l)-1); err != nil {
			return nil, err
		}
	}
	return closed(dst), nil
}

// message appends one message of the conversation, with a comma. Instructions of the system may stand anywhere: they stay there.
func (t *translator) message(dst []byte, m clientapi.Object, last bool) ([]byte, error) {
	if err := m.Only("role", "content"); err != nil {
		return nil, err
	}
	role, err := m.Required("role")
	if err != nil {
		return nil, err
	}
	if role != "user" && role != "assistant" && role != "system" {
		return nil, clientapi.BadValue(m.Member("role"), "is none of user, assistant, system.")
	}
	if role == "assistant" && last {
		return nil, m.EngineOnly("role", clientapi.ReasonPrefill)
	}
	if !m.Has("content") {
		return nil, clientapi.Missing(m.Member("content"))
	}
	in := turn{dropped: &t.dropped}
	if err := in.read(m.Raw("content"), m.Member("content"), role); err != nil {
		return nil, err
	}
	return in.appendTo(dst, role), nil
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

// read reads content: a string or blocks.
func (t *turn) read(raw json.RawMessage, at, role string) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		t.addText(s)
		return nil
	}
	l, ok := openai.Elements(raw)
	if !ok {
		return clientapi.BadType(at, "is neither a string nor an array.")
	}
	for i, raw := range l {
		b, err := clientapi.ReadObject(raw, clientapi.Element(at, i))
		if err == nil {
			err = t.block(b, role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block adds one block, whose members [openai.Peek] has accepted.
func (t *turn) block(b clientapi.Object, role string) error {
	kind, err := b.Required("type")
	if err != nil {
		return err
	}
	switch {
	case kind == "text":
		if !b.Has("text") {
			return clientapi.Missing(b.Member("text"))
		}
		s, err := b.Text("text")
		if b.At == billingAt && strings.HasPrefix(s, billing) {
			t.dropped.Add(b.At) // it differs between conversations, whose prefix would be cold
			return nil
		}
		t.addText(s)
		return err
	case kind == "image" && (role == "user" || role == "tool"):
		return t.image(b)
	case kind == "tool_use" && role == "assistant":
		return t.call(b)
	case kind == "tool_result" && role == "user":
		return t.result(b)
	case (kind == "thinking" || kind == "redacted_thinking") && role == "assistant":
		return nil // of any model, with any signature: it reaches no engine
	case kind == "document" && (role == "user" || role == "tool"):
		return t.document(b)
	case kind == "search_result" && (role == "user" || role == "tool"):
		return t.searchResult(b)
	case kind == "tool_reference" && role == "tool":
		name, err := b.Required("tool_name")
		t.addText(name)
		return err
	case (kind == "tool_addition" || kind == "tool_removal") && role == "system":
		t.dropped.Add(b.Member("type") + " " + kind) // all tools are offered all the time
		return nil
	case role == "system" || kind == "image" || kind == "tool_use" || kind == "tool_result":
		return clientapi.BadValue(b.Member("type"), "is not allowed in this place.")
	}
	return b.EngineOnly("type", clientapi.ReasonNoChat)
}

// image adds an image, which is in the request: [openai.Peek] refuses one that must be fetched.
func (t *turn) image(b clientapi.Object) error {
	s, err := b.Object("source")
	if err != nil {
		return err
	}
	media, err := s.Required("media_type")
	if err != nil {
		return err
	}
	data, err := s.Required("data")
	t.parts = openai.AppendQuote(append(t.parts, `{"type":"image_url","image_url":{"url":`...), "data:"+media+";base64,"+data)
	t.parts = append(t.parts, "}},"...)
	t.count++
	return err
}

// call adds a call that the assistant made.
func (t *turn) call(b clientapi.Object) error {
	id, err := b.Required("id")
	if err != nil {
		return err
	}
	name, err := b.Required("name")
	if err != nil {
		return err
	}
	if !b.IsObject("input") {
		return clientapi.BadType(b.Member("input"), "is required, and is an object.")
	}
	// The order of members is that of the package responses: some templates print a call as it is, and the key of the cache keeps it.
	t.calls = openai.AppendQuote(append(t.calls, `{"function":{"arguments":`...), string(clientapi.AppendCompact(nil, b.Raw("input"))))
	t.calls = openai.AppendQuote(append(t.calls, `,"name":`...), name)
	t.calls = append(openai.AppendQuote(append(t.calls, `},"id":`...), id), `,"type":"function"},`...)
	return nil
}

// result adds what a tool returned.
func (t *turn) result(b clientapi.Object) error {
	id, err := b.Required("tool_use_id")
	if err != nil {
		return err
	}
	failed, err := b.Flag("is_error")
	if err != nil {
		return err
	}
	in := turn{dropped: t.dropped}
	if failed {
		in.addText("Error:")
	}
	if b.Has("content") {
		if err := in.read(b.Raw("content"), b.Member("content"), "tool"); err != nil {
			return err
		}
	}
	t.results = openai.AppendQuote(append(t.results, `{"role":"tool","tool_call_id":`...), id)
	t.results = append(in.appendContent(append(t.results, `,"content":`...)), "},"...)
	return nil
}

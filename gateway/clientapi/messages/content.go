package messages

import (
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// turn is one message's content, sorted by what a chat completion does with it.
type turn struct {
	parts   []string // content parts as JSON
	text    []string // the text of each part, while all are text
	calls   []string // tool calls as JSON
	results []string // tool messages as JSON
}

// appendMessages appends the system text and the conversation.
func appendMessages(dst []byte, o object) ([]byte, error) {
	l, err := o.list("", "messages")
	if err != nil {
		return nil, err
	}
	if len(l) == 0 {
		return nil, refuse("messages", "is required, and is not empty.")
	}
	var all []string
	if o.has("system") {
		var t turn
		if err := t.read(o["system"], "system", "system"); err != nil {
			return nil, err
		}
		all = t.messages(all, "system")
	}
	for i, raw := range l {
		at := element("messages", i)
		m, err := readObject(raw, at)
		if err != nil {
			return nil, err
		}
		role, err := m.required(at, "role")
		if err != nil {
			return nil, err
		}
		if role != "user" && role != "assistant" {
			return nil, refuse(under(at, "role"), "is neither user nor assistant.")
		}
		if role == "assistant" && i == len(l)-1 {
			return nil, engineOnly(under(at, "role")) // the answer must go on with it
		}
		if !m.has("content") {
			return nil, refuse(under(at, "content"), "is required.")
		}
		var t turn
		if err := t.read(m["content"], under(at, "content"), role); err != nil {
			return nil, err
		}
		all = t.messages(all, role)
	}
	return append(dst, `,"messages":[`+strings.Join(all, ",")+"]"...), nil
}

// messages appends the chat messages of the turn: results of tools come before the user's own words.
func (t *turn) messages(all []string, role string) []string {
	all = append(all, t.results...)
	if len(t.parts) == 0 && len(t.calls) == 0 {
		if len(t.results) > 0 || role == "system" {
			return all
		}
	}
	m := `{"role":"` + role + `"`
	if len(t.parts) > 0 || len(t.calls) == 0 {
		m += `,"content":` + t.content()
	}
	if len(t.calls) > 0 {
		m += `,"tool_calls":[` + strings.Join(t.calls, ",") + "]"
	}
	return append(all, m+"}")
}

// content is a string if there is only one text.
func (t *turn) content() string {
	switch {
	case len(t.parts) == 0:
		return `""`
	case len(t.parts) == 1 && len(t.text) == 1:
		return string(openai.Quote(t.text[0]))
	}
	return "[" + strings.Join(t.parts, ",") + "]"
}

// addText adds a text part.
func (t *turn) addText(s string) {
	t.text = append(t.text, s)
	t.parts = append(t.parts, `{"type":"text","text":`+string(openai.Quote(s))+"}")
}

// read reads content: a string or blocks.
func (t *turn) read(raw json.RawMessage, at, role string) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		t.addText(s)
		return nil
	}
	var l []json.RawMessage
	if json.Unmarshal(raw, &l) != nil {
		return refuse(at, "is neither a string nor an array.")
	}
	for i, raw := range l {
		b, err := readObject(raw, element(at, i))
		if err == nil {
			err = t.block(b, element(at, i), role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block adds one block.
func (t *turn) block(b object, at, role string) error {
	kind, err := b.required(at, "type")
	if err != nil {
		return err
	}
	switch {
	case kind == "text":
		if !b.has("text") {
			return refuse(under(at, "text"), "is required.")
		}
		s, err := b.text(at, "text")
		t.addText(s)
		return err
	case kind == "image" && role == "user":
		return t.image(b, at)
	case kind == "tool_use" && role == "assistant":
		return t.call(b, at)
	case kind == "tool_result" && role == "user":
		return t.result(b, at)
	case (kind == "thinking" || kind == "redacted_thinking") && role == "assistant":
		return nil // an engine's template drops earlier reasoning as well
	case role == "system" || kind == "image" || kind == "tool_use" || kind == "tool_result":
		return refuse(under(at, "type"), "is not allowed in this place.")
	}
	return engineOnly(under(at, "type"))
}

// image adds an image.
func (t *turn) image(b object, at string) error {
	at = under(at, "source")
	s, err := readObject(b["source"], at)
	if err != nil {
		return err
	}
	kind, err := s.required(at, "type")
	if err != nil {
		return err
	}
	var url string
	switch kind {
	case "url":
		url, err = s.required(at, "url")
	case "base64":
		var media, data string
		if media, err = s.required(at, "media_type"); err == nil {
			data, err = s.required(at, "data")
		}
		url = "data:" + media + ";base64," + data
	default:
		return engineOnly(under(at, "type"))
	}
	t.parts = append(t.parts, `{"type":"image_url","image_url":{"url":`+string(openai.Quote(url))+"}}")
	return err
}

// call adds a call that the assistant made.
func (t *turn) call(b object, at string) error {
	id, err := b.required(at, "id")
	if err != nil {
		return err
	}
	name, err := b.required(at, "name")
	if err != nil {
		return err
	}
	if len(b["input"]) == 0 || b["input"][0] != '{' {
		return refuse(under(at, "input"), "is required, and is an object.")
	}
	t.calls = append(t.calls, `{"id":`+string(openai.Quote(id))+`,"type":"function","function":{"name":`+string(openai.Quote(name))+
		`,"arguments":`+string(openai.Quote(string(compacted(nil, b["input"]))))+"}}")
	return nil
}

// result adds what a tool returned.
func (t *turn) result(b object, at string) error {
	id, err := b.required(at, "tool_use_id")
	if err != nil {
		return err
	}
	failed, err := b.flag(at, "is_error")
	if err != nil {
		return err
	}
	var in turn
	if failed {
		in.addText("Error:")
	}
	if b.has("content") {
		if err := in.read(b["content"], under(at, "content"), "user"); err != nil {
			return err
		}
	}
	if len(in.results) > 0 {
		return refuse(under(at, "content"), "holds a tool_result.")
	}
	t.results = append(t.results, `{"role":"tool","tool_call_id":`+string(openai.Quote(id))+`,"content":`+in.content()+"}")
	return nil
}

package messages

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// known are the fields of a request.
var known = []string{
	"model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream", "tools",
	"tool_choice", "metadata", "thinking", "container", "mcp_servers", "service_tier",
}

// ownName is the API's name of a field of a chat completion, where that is another.
var ownName = map[string]string{
	"stop": "stop_sequences", "user": "metadata.user_id", "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}

// engineOnly is the field that only an engine's own implementation can serve.
type engineOnly string

// Error implements error.
func (e engineOnly) Error() string { return string(e) + " needs an engine's own implementation" }

// Translate implements [clientapi.API].
func (API) Translate(body []byte) (*clientapi.Request, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, refuse("", "The body is not valid JSON.")
	}
	o, err := readObject(body, "")
	if err != nil {
		return nil, err
	}
	r := &clientapi.Request{
		NewEncoder: func(id string) clientapi.Encoder { return &encoder{id: id} },
		Param:      param,
	}
	if r.Stream, err = o.flag("", "stream"); err != nil {
		return nil, err
	}
	r.Chat, err = chat(o, r.Stream)
	if field, ok := errors.AsType[engineOnly](err); ok {
		r.Chat, r.EngineOnly = nil, string(field)
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// param is the API's name of a field of a chat completion. The places of messages differ: they lose their index.
func param(chat string) string {
	if own, ok := ownName[chat]; ok {
		return own
	}
	if strings.HasPrefix(chat, "messages") {
		return "messages"
	}
	return chat
}

// chat writes the body of the chat completion.
func chat(o object, stream bool) ([]byte, error) {
	if err := o.only("", known...); err != nil {
		return nil, err
	}
	for _, name := range []string{"container", "mcp_servers"} {
		if o.has(name) && string(o[name]) != "[]" {
			return nil, engineOnly(name)
		}
	}
	model, err := o.required("", "model")
	if err != nil {
		return nil, err
	}
	dst := openai.AppendQuote([]byte(`{"model":`), model)
	for _, add := range []func([]byte, object) ([]byte, error){appendMessages, appendNumbers, appendStop, appendTools, appendChoice, appendUser} {
		if dst, err = add(dst, o); err != nil {
			return nil, err
		}
	}
	if stream {
		dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	return append(dst, '}'), nil
}

// appendNumbers appends the limits and the sampling, and checks "thinking".
func appendNumbers(dst []byte, o object) ([]byte, error) {
	var limit int
	if json.Unmarshal(o["max_tokens"], &limit) != nil || limit < 1 {
		return nil, refuse("max_tokens", "is required, and is a whole number of at least 1.")
	}
	if o.has("temperature") {
		var t float64
		if json.Unmarshal(o["temperature"], &t) != nil || t < 0 || t > 1 {
			return nil, refuse("temperature", "is not a number from 0 to 1.")
		}
	}
	for _, name := range []string{"max_tokens", "temperature", "top_p", "top_k"} {
		if !o.has(name) {
			continue
		}
		var n json.Number
		if o[name][0] == '"' || json.Unmarshal(o[name], &n) != nil {
			return nil, refuse(name, "is not a number.")
		}
		dst = append(append(dst, `,"`+name+`":`...), o[name]...)
	}
	if !o.has("thinking") {
		return dst, nil
	}
	t, err := readObject(o["thinking"], "thinking")
	if err != nil {
		return nil, err
	}
	kind, err := t.required("thinking", "type")
	switch {
	case err != nil:
		return nil, err
	case kind != "disabled":
		return nil, engineOnly("thinking")
	}
	return dst, nil
}

// appendStop appends the stop strings.
func appendStop(dst []byte, o object) ([]byte, error) {
	l, err := o.list("", "stop_sequences")
	if err != nil || len(l) == 0 {
		return dst, err
	}
	for i, raw := range l {
		if raw[0] != '"' {
			return nil, refuse(element("stop_sequences", i), "is not a string.")
		}
	}
	return compacted(append(dst, `,"stop":`...), o["stop_sequences"]), nil
}

// appendUser appends the user's name.
func appendUser(dst []byte, o object) ([]byte, error) {
	if !o.has("metadata") {
		return dst, nil
	}
	m, err := readObject(o["metadata"], "metadata")
	if err != nil {
		return nil, err
	}
	if err := m.only("metadata", "user_id"); err != nil {
		return nil, err
	}
	user, err := m.text("metadata", "user_id")
	if err != nil || user == "" {
		return dst, err
	}
	return openai.AppendQuote(append(dst, `,"user":`...), user), nil
}

// appendTools appends the tools that the client runs.
func appendTools(dst []byte, o object) ([]byte, error) {
	l, err := o.list("", "tools")
	if err != nil || len(l) == 0 {
		return dst, err
	}
	dst = append(dst, `,"tools":[`...)
	for i, raw := range l {
		at := element("tools", i)
		t, err := readObject(raw, at)
		if err != nil {
			return nil, err
		}
		kind, err := t.text(at, "type")
		if err != nil {
			return nil, err
		}
		if kind != "" && kind != "custom" {
			return nil, engineOnly(at + ".type")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendTool(dst, t, at); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// toolMembers are the members of a tool that are read, and cache_control, which engines that cache every prefix do not need.
var toolMembers = []string{"type", "name", "description", "input_schema", "strict", "cache_control"}

// appendTool appends one tool.
func appendTool(dst []byte, t object, at string) ([]byte, error) {
	if err := t.only(at, toolMembers...); err != nil {
		return nil, err
	}
	name, err := t.required(at, "name")
	if err != nil {
		return nil, err
	}
	about, err := t.text(at, "description")
	if err != nil {
		return nil, err
	}
	if len(t["input_schema"]) == 0 || t["input_schema"][0] != '{' {
		return nil, refuse(under(at, "input_schema"), "is required, and is an object.")
	}
	dst = openai.AppendQuote(append(dst, `{"type":"function","function":{"name":`...), name)
	if about != "" {
		dst = openai.AppendQuote(append(dst, `,"description":`...), about)
	}
	strict, err := t.flag(at, "strict")
	if strict {
		dst = append(dst, `,"strict":true`...)
	}
	return append(compacted(append(dst, `,"parameters":`...), t["input_schema"]), "}}"...), err
}

// appendChoice appends which tools may be called.
func appendChoice(dst []byte, o object) ([]byte, error) {
	const at = "tool_choice"
	if !o.has(at) {
		return dst, nil
	}
	c, err := readObject(o[at], at)
	if err != nil {
		return nil, err
	}
	if err := c.only(at, "type", "name", "disable_parallel_tool_use"); err != nil {
		return nil, err
	}
	kind, err := c.required(at, "type")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "auto", "none":
		dst = append(dst, `,"tool_choice":"`+kind+`"`...)
	case "any":
		dst = append(dst, `,"tool_choice":"required"`...)
	case "tool":
		name, err := c.required(at, "name")
		if err != nil {
			return nil, err
		}
		dst = openai.AppendQuote(append(dst, `,"tool_choice":{"type":"function","function":{"name":`...), name)
		dst = append(dst, "}}"...)
	default:
		return nil, refuse("tool_choice.type", "is none of auto, any, tool, none.")
	}
	single, err := c.flag(at, "disable_parallel_tool_use")
	if single {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst, err
}

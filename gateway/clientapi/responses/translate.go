package responses

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
)

// translator makes one chat completion of one request.
type translator struct {
	in         object
	chat       map[string]any
	stream     bool
	engineOnly string
	messages   []any
}

// forwarded are the fields whose value a chat completion takes unchanged, with its name there.
var forwarded = map[string]string{
	"model": "model", "temperature": "temperature", "top_p": "top_p", "parallel_tool_calls": "parallel_tool_calls",
	"max_output_tokens": "max_tokens", "user": "user", "safety_identifier": "user",
}

// stateful are the fields that only an engine's own implementation can serve.
var stateful = []string{"previous_response_id", "conversation", "prompt", "context_management", "background", "store"}

// ignored are the fields that change nothing here, and those that run reads by name.
var ignored = []string{"service_tier", "prompt_cache_key", "prompt_cache_retention", "stream_options", "metadata",
	"input", "instructions", "stream", "tools", "tool_choice", "text", "reasoning", "truncation", "include", "top_logprobs"}

// null reports whether a field is absent or null.
func null(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }

// read reads a field that may be absent or null.
func read[T any](o object, name, at string) (v T, err error) {
	if null(o[name]) {
		return v, nil
	}
	if json.Unmarshal(o[name], &v) != nil {
		return v, bad(at+name, "invalid_type", "%s has the wrong type.", at+name)
	}
	return v, nil
}

func (t *translator) run() error {
	for _, name := range slices.Sorted(maps.Keys(t.in)) {
		v := t.in[name]
		switch to, ok := forwarded[name]; {
		case ok && !null(v):
			t.chat[to] = v
		case slices.Contains(stateful, name) && !null(v) && string(v) != "false":
			t.onlyEngine(name)
		case !ok && !slices.Contains(stateful, name) && !slices.Contains(ignored, name):
			t.onlyEngine(clientapi.FieldName(clip(name))) // an engine may know it
		}
	}
	if t.engineOnly != "" {
		return nil
	}
	for _, step := range []func() error{t.switches, t.instructions, t.input, t.tools, t.choice, t.format} {
		if err := step(); err != nil {
			return err
		}
	}
	t.chat["messages"] = t.messages
	return nil
}

func (t *translator) onlyEngine(name string) {
	if t.engineOnly == "" {
		t.engineOnly = name
	}
}

func (t *translator) switches() (err error) {
	if t.stream, err = read[bool](t.in, "stream", ""); err != nil {
		return err
	}
	if t.stream {
		t.chat["stream"], t.chat["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	truncation, err := read[string](t.in, "truncation", "")
	if err != nil {
		return err
	}
	if truncation != "" && truncation != "disabled" {
		t.onlyEngine("truncation")
	}
	include, err := read[[]string](t.in, "include", "")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(include, func(s string) bool { return s != "reasoning.encrypted_content" }) {
		t.onlyEngine("include")
	}
	top, err := read[int](t.in, "top_logprobs", "")
	if top > 0 {
		t.onlyEngine("top_logprobs")
	}
	return err
}

func (t *translator) instructions() error {
	text, err := read[string](t.in, "instructions", "")
	if text != "" {
		t.messages = append(t.messages, map[string]any{"role": "system", "content": text})
	}
	return err
}

func (t *translator) input() error {
	var text string
	if null(t.in["input"]) {
		return bad("input", "missing_required_parameter", "input is missing.")
	}
	if json.Unmarshal(t.in["input"], &text) == nil {
		t.messages = append(t.messages, map[string]any{"role": "user", "content": text})
		return nil
	}
	items, err := read[[]object](t.in, "input", "")
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := t.item(item, fmt.Sprintf("input[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *translator) item(o object, at string) error {
	kind, err := read[string](o, "type", at)
	if err != nil {
		return err
	}
	switch kind {
	case "", "message":
		return t.message(o, at)
	case "function_call":
		return t.call(o, at)
	case "function_call_output":
		if id, err := read[string](o, "call_id", at); err != nil || id == "" {
			return bad(at+"call_id", "invalid_type", "%scall_id must be a string.", at)
		}
		content, err := parts(o["output"], at+"output")
		t.messages = append(t.messages, map[string]any{"role": "tool", "tool_call_id": o["call_id"], "content": content})
		return err
	case "reasoning":
		return nil
	}
	t.onlyEngine(at + "type")
	return nil
}

func (t *translator) message(o object, at string) error {
	role, err := read[string](o, "role", at)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		return bad(at+"role", "invalid_value", "%srole must be user, assistant, system or developer.", at)
	}
	content, err := parts(o["content"], at+"content")
	t.messages = append(t.messages, map[string]any{"role": role, "content": content})
	return err
}

// call adds a call to the assistant's message before it, if there is one.
func (t *translator) call(o object, at string) error {
	for _, name := range []string{"call_id", "name", "arguments"} {
		if s, err := read[string](o, name, at); err != nil || null(o[name]) || (s == "" && name != "arguments") {
			return bad(at+name, "invalid_type", "%s must be a string.", at+name)
		}
	}
	call := map[string]any{"id": o["call_id"], "type": "function", "function": object{"name": o["name"], "arguments": o["arguments"]}}
	if n := len(t.messages); n > 0 {
		if m := t.messages[n-1].(map[string]any); m["role"] == "assistant" {
			calls, _ := m["tool_calls"].([]any)
			m["tool_calls"] = append(calls, call)
			return nil
		}
	}
	t.messages = append(t.messages, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}})
	return nil
}

// parts translates a message's content.
func parts(raw json.RawMessage, at string) (any, error) {
	var text string
	if !null(raw) && json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var list []object
	if null(raw) || json.Unmarshal(raw, &list) != nil {
		return nil, bad(at, "invalid_type", "%s must be a string or an array.", at)
	}
	out := make([]any, 0, len(list))
	for i, p := range list {
		kind, err := read[string](p, "type", "")
		if err != nil {
			return nil, err
		}
		member := map[string]string{"input_text": "text", "output_text": "text", "refusal": "refusal", "input_image": "image_url"}[kind]
		where := fmt.Sprintf("%s[%d].", at, i)
		if member == "" {
			return nil, bad(where+"type", "invalid_value", "%stype must be input_text, output_text, input_image or refusal.", where)
		}
		if err := json.Unmarshal(p[member], &text); err != nil || null(p[member]) {
			return nil, bad(where+member, "invalid_type", "%s%s must be a string.", where, member)
		}
		switch member {
		case "image_url":
			image := object{"url": p[member]}
			if !null(p["detail"]) {
				image["detail"] = p["detail"]
			}
			out = append(out, map[string]any{"type": "image_url", "image_url": image})
		default:
			out = append(out, map[string]any{"type": member, member: text})
		}
	}
	if len(out) == 1 && len(list) == 1 {
		if m := out[0].(map[string]any); m["type"] == "text" {
			return m["text"], nil
		}
	}
	return out, nil
}

// function returns a function without the member type, that chat completions write one level higher.
func function(o object) map[string]any {
	f := object{}
	for name, v := range o {
		if name != "type" && !null(v) {
			f[name] = v
		}
	}
	return map[string]any{"type": "function", "function": f}
}

func (t *translator) tools() error {
	list, err := read[[]object](t.in, "tools", "")
	var out []any
	for i, o := range list {
		if string(o["type"]) != `"function"` {
			t.onlyEngine(fmt.Sprintf("tools[%d].type", i))
			return nil
		}
		out = append(out, function(o))
	}
	if len(out) > 0 {
		t.chat["tools"] = out
	}
	return err
}

func (t *translator) choice() error {
	v := t.in["tool_choice"]
	switch {
	case null(v), t.chat["tools"] == nil && (string(v) == `"auto"` || string(v) == `"none"`):
		return nil // engines refuse it without tools
	case t.chat["tools"] == nil:
		return bad("tool_choice", "invalid_value", "tool_choice demands a call, but there are no tools.")
	case v[0] == '"':
		t.chat["tool_choice"] = v
		return nil
	}
	o, err := read[object](t.in, "tool_choice", "")
	if err == nil && string(o["type"]) != `"function"` {
		t.onlyEngine("tool_choice.type")
	}
	t.chat["tool_choice"] = function(o)
	return err
}

// members has an engine serve a request with other members of an object than the known ones.
func (t *translator) members(o object, at string, known ...string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, name) {
			t.onlyEngine(at + clientapi.FieldName(clip(name)))
		}
	}
}

func (t *translator) format() error {
	text, err := read[object](t.in, "text", "")
	if err != nil {
		return err
	}
	reasoning, err := read[object](t.in, "reasoning", "")
	if err != nil {
		return err
	}
	t.members(text, "text.", "format", "verbosity")
	t.members(reasoning, "reasoning.", "effort", "summary", "generate_summary") // summaries are made where an engine can
	if !null(text["verbosity"]) {
		t.chat["verbosity"] = text["verbosity"]
	}
	if !null(reasoning["effort"]) {
		t.chat["reasoning_effort"] = reasoning["effort"]
	}
	f, err := read[object](text, "format", "text.")
	if err != nil || f == nil {
		return err
	}
	kind, err := read[string](f, "type", "text.format.")
	switch kind {
	case "text":
	case "json_object":
		t.chat["response_format"] = object{"type": f["type"]}
	case "json_schema":
		t.chat["response_format"] = map[string]any{"type": kind, kind: function(f)["function"]}
	default:
		return bad("text.format.type", "invalid_value", "text.format.type must be text, json_object or json_schema.")
	}
	return err
}

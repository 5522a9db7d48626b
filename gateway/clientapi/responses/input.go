package responses

import (
	"encoding/json"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
)

func (t *translator) input() error {
	if !t.in.Has("input") {
		return clientapi.Missing("input")
	}
	var text string
	if json.Unmarshal(t.in.Raw("input"), &text) == nil {
		t.added = []json.RawMessage{slices.Concat([]byte(`{"type":"message","role":"user","content":`), t.in.Raw("input"), []byte("}"))}
		t.messages = append(t.messages, map[string]any{"role": "user", "content": text})
		return nil
	}
	items, err := t.in.List("input")
	if err != nil {
		return clientapi.BadType("input", "is neither a string nor an array.")
	}
	for i, raw := range items {
		o, err := clientapi.ReadObject(raw, clientapi.Element("input", i))
		if err != nil {
			return err
		}
		if isReference(o) && t.kept != nil {
			if raw, err = t.referred(o); err != nil {
				return err
			}
			t.copied += len(raw)
			if o, err = clientapi.ReadObject(raw, o.At); err != nil {
				return err
			}
		}
		if t.added = append(t.added, raw); !t.store {
			t.added = nil
		}
		if err := t.item(o); err != nil {
			return err
		}
	}
	return nil
}

// isReference reports whether an item of the input only names another one.
func isReference(o clientapi.Object) bool {
	kind, _ := o.Text("type")
	return kind == "item_reference" || kind == "" && o.Has("id") && !o.Has("role") && !o.Has("content")
}

// itemMembers are the members of items by type.
var itemMembers = map[string][]string{
	"message":                 {"role", "content", "phase"},
	"function_call":           {"call_id", "name", "arguments", "namespace", "parsed_arguments", "caller"},
	"function_call_output":    {"call_id", "output", "name", "caller"},
	"custom_tool_call":        {"call_id", "name", "input", "namespace", "caller"},
	"custom_tool_call_output": {"call_id", "output", "name", "caller"},
	"reasoning":               {"summary", "content", "encrypted_content"},
	"additional_tools":        {"role", "tools"},
}

// anyItemMembers are members of all items that say nothing to a model: clients send the items of an answer back as they got them,
// with what they and OpenAI add.
var anyItemMembers = []string{"type", "id", "status", "created_by", "metadata", "internal_chat_message_metadata_passthrough", "agent"}

// providerItems are the calls of tools that OpenAI's servers ran. What they have found is in the answer behind them.
var providerItems = []string{"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}

// item translates an item of the input.
func (t *translator) item(o clientapi.Object) error {
	kind, err := o.Text("type")
	if err != nil {
		return err
	}
	if kind == "" {
		kind = "message"
	}
	names := itemMembers[kind]
	switch {
	case isReference(o):
		return o.EngineOnly("id", clientapi.ReasonState)
	case slices.Contains(providerItems, kind):
		t.dropped.Add(o.At + " " + kind)
		return nil
	case names == nil:
		return o.EngineOnly("type", clientapi.ReasonNoChat)
	}
	if err := o.Only(slices.Concat(anyItemMembers, names)...); err != nil {
		return err
	}
	switch kind {
	case "message":
		return t.message(o)
	case "function_call":
		return t.call(o, "arguments")
	case "custom_tool_call":
		return t.call(o, customInput)
	case "function_call_output", "custom_tool_call_output":
		return t.result(o)
	case "additional_tools": // a chat has all of its tools from the beginning
		return t.tools(o)
	}
	return nil // reasoning: an engine's template drops earlier reasoning as well
}

func (t *translator) message(o clientapi.Object) error {
	role, err := o.Text("role")
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		return clientapi.BadValue(o.Member("role"), "must be user, assistant, system or developer.")
	}
	content, err := parts(o, "content")
	t.messages = append(t.messages, map[string]any{"role": role, "content": content})
	return err
}

// call adds a call to the assistant's message before it, if there is one. The text of a custom tool's call is an object in a chat.
func (t *translator) call(o clientapi.Object, argument string) error {
	for _, name := range []string{"call_id", "name", argument} {
		s, err := o.Text(name)
		if err != nil {
			return err
		}
		if !o.Has(name) || s == "" && name != argument {
			return clientapi.Missing(o.Member(name))
		}
	}
	name, _ := o.Text("name")
	namespace, err := o.Text("namespace")
	if err != nil {
		return err
	}
	arguments := o.Raw(argument)
	if argument == customInput {
		object, err := encode(map[string]json.RawMessage{customInput: arguments})
		if err != nil {
			return err
		}
		if arguments, err = encode(string(object)); err != nil {
			return err
		}
	}
	call := function(toolName{namespace: namespace, name: name}.chatName(), map[string]json.RawMessage{"arguments": arguments})
	call["id"] = o.Raw("call_id")
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

// result adds what a tool returned.
func (t *translator) result(o clientapi.Object) error {
	id, err := o.Required("call_id")
	if err != nil {
		return err
	}
	content, err := parts(o, "output")
	t.messages = append(t.messages, map[string]any{"role": "tool", "tool_call_id": id, "content": content})
	return err
}

// textMembers are the members that hold the text of content parts, by their type, and that of an image.
var textMembers = map[string]string{"input_text": "text", "output_text": "text", "refusal": "refusal", "input_image": "image_url"}

// parts translates content: a string if there is only one text.
func parts(o clientapi.Object, name string) (any, error) {
	var text string
	if o.Has(name) && json.Unmarshal(o.Raw(name), &text) == nil {
		return text, nil
	}
	list, err := o.List(name)
	if err != nil || !o.Has(name) {
		return nil, clientapi.BadType(o.Member(name), "must be a string or an array.")
	}
	out := make([]any, 0, len(list))
	for i, raw := range list {
		p, err := clientapi.ReadObject(raw, clientapi.Element(o.Member(name), i))
		if err != nil {
			return nil, err
		}
		part, err := part(p)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	if len(out) == 1 {
		if m := out[0].(map[string]any); m["type"] == "text" {
			return m["text"], nil
		}
	}
	return out, nil
}

// part translates one content part, whose members [openai.Peek] has accepted.
func part(p clientapi.Object) (map[string]any, error) {
	kind, err := p.Text("type")
	if err != nil {
		return nil, err
	}
	member := textMembers[kind]
	if member == "" {
		return nil, clientapi.BadValue(p.Member("type"), "must be input_text, output_text, input_image or refusal.")
	}
	text, err := p.Text(member)
	switch {
	case err != nil:
		return nil, err
	case !p.Has(member):
		return nil, clientapi.Missing(p.Member(member))
	case member != "image_url":
		return map[string]any{"type": member, member: text}, nil
	}
	image := members(p, "detail")
	image["url"] = p.Raw(member)
	return map[string]any{"type": member, member: image}, nil
}

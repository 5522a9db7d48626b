package responses

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
)

func (t *translator) input() {
	o := t.In
	o.Need("input")
	var text string
	if json.Unmarshal(o.Raw("input"), &text) == nil && o.Has("input") {
		t.added = []json.RawMessage{slices.Concat([]byte(`{"type":"message","role":"user","content":`), o.Raw("input"), []byte("}"))}
		t.Say("user", text)
		return
	}
	if o.Has("input") && o.Raw("input")[0] != '[' {
		o.BadType("input", "is neither a string nor an array.")
	}
	for i, raw := range o.List("input") {
		item := o.Read(raw, clientapi.Element("input", i))
		if isReference(item) && t.state != nil {
			raw = t.referred(item)
			t.copied += len(raw)
			item = o.Read(raw, item.At)
		}
		if t.store {
			t.added = append(t.added, raw)
		}
		if t.item(item); o.Err() != nil {
			return
		}
	}
}

// isReference reports whether an item of the input only names another one.
func isReference(o clientapi.Object) bool {
	kind := o.Text("type")
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
func (t *translator) item(o clientapi.Object) {
	kind := cmp.Or(o.Text("type"), "message")
	names := itemMembers[kind]
	switch {
	case isReference(o):
		o.EngineOnly("id", clientapi.ReasonState)
	case slices.Contains(providerItems, kind):
		t.Dropped.Add(o.At + " " + kind)
		return
	case names == nil:
		o.EngineOnly("type", clientapi.ReasonNoChat)
	}
	if o.Only(slices.Concat(anyItemMembers, names)...); o.Err() != nil {
		return
	}
	switch kind {
	case "message":
		t.message(o)
	case "function_call":
		t.call(o, "arguments")
	case "custom_tool_call":
		t.call(o, customInput)
	case "function_call_output", "custom_tool_call_output": // what a tool returned
		t.Messages = append(t.Messages, map[string]any{"role": "tool", "tool_call_id": o.Required("call_id"), "content": parts(o, "output")})
	case "additional_tools": // a chat has all of its tools from the beginning
		t.tools(o, "")
	} // reasoning: an engine's template drops earlier reasoning as well
}

func (t *translator) message(o clientapi.Object) {
	role := o.Text("role")
	if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		o.BadValue("role", "must be user, assistant, system or developer.")
	}
	t.Say(role, parts(o, "content"))
}

// call adds a call to the assistant's message before it, if there is one. The text of a custom tool's call is an object in a chat.
func (t *translator) call(o clientapi.Object, argument string) {
	o.Required("call_id")
	o.Need(argument)
	name := toolName{namespace: o.Text("namespace"), name: o.Required("name")}.chatName()
	arguments := o.Text(argument)
	if argument == customInput {
		arguments = string(clientapi.Encode(map[string]string{customInput: arguments}))
	}
	call := clientapi.Call(o.Text("call_id"), name, arguments)
	if n := len(t.Messages); n > 0 {
		if m := t.Messages[n-1].(map[string]any); m["role"] == "assistant" {
			calls, _ := m["tool_calls"].([]any)
			m["tool_calls"] = append(calls, call)
			return
		}
	}
	t.Messages = append(t.Messages, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}})
}

// textMembers are the members that hold the text of content parts, by their type, and that of an image.
var textMembers = map[string]string{"input_text": "text", "output_text": "text", "refusal": "refusal", "input_image": "image_url"}

// parts translates content: a string if there is only one text.
func parts(o clientapi.Object, name string) any {
	var text string
	switch raw := o.Raw(name); {
	case o.Has(name) && json.Unmarshal(raw, &text) == nil:
		return text
	case !o.Has(name) || raw[0] != '[':
		o.BadType(name, "must be a string or an array.")
		return nil
	}
	out := []any{}
	for _, p := range o.Objects(name) {
		out = append(out, part(p))
	}
	if len(out) == 0 {
		return out
	}
	return clientapi.Content(out)
}

// part translates one content part, whose members [openai.Peek] has accepted.
func part(p clientapi.Object) map[string]any {
	member := textMembers[p.Text("type")]
	if member == "" {
		p.BadValue("type", "must be input_text, output_text, input_image or refusal.")
	}
	text := p.Text(member)
	p.Need(member)
	if member != "image_url" {
		return map[string]any{"type": member, member: text}
	}
	image := p.Members("detail")
	image["url"] = p.Raw(member)
	return map[string]any{"type": member, member: image}
}

package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// toolName is a tool as the client knows it, where a chat completion names it otherwise.
type toolName struct {
	namespace string // "" for none
	name      string
	custom    bool // its input is a text, not an object
}

// maxToolName is the longest name of a function in OpenAI's API, in bytes.
const maxToolName = 64

// chatName is the name of the tool's function in a chat completion: chats have no namespaces.
func (t toolName) chatName() string {
	switch {
	case t.namespace == "":
		return t.name
	case strings.HasSuffix(t.namespace, "__"):
		return short(t.namespace + t.name)
	}
	return short(t.namespace + "__" + t.name)
}

// short is a name of at most maxToolName bytes; a longer one ends with its digest.
func short(name string) string {
	if len(name) <= maxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	digest := "_" + hex.EncodeToString(sum[:4])
	return strings.ToValidUTF8(name[:maxToolName-len(digest)], "") + digest
}

// providerTools are the types of tools that only OpenAI's servers, or models that know them by heart, could run.
var providerTools = []string{
	"web_search", "web_search_preview", "web_search_2025_08_26", "web_search_preview_2025_03_11", "file_search", "code_interpreter",
	"image_generation", "mcp", "computer", "computer_use", "computer_use_preview", "local_shell", "shell", "apply_patch", "tool_search", "programmatic_tool_calling",
}

// function returns a function as chat completions write it: its members are one level deeper.
func function(name string, more map[string]json.RawMessage) map[string]any {
	more["name"], _ = encode(name) // a string
	return map[string]any{"type": "function", "function": more}
}

// tools adds the tools that an object lists.
func (t *translator) tools(of clientapi.Object) error {
	list, err := of.List("tools")
	if err != nil {
		return err
	}
	for i, raw := range list {
		o, err := clientapi.ReadObject(raw, clientapi.Element(of.Member("tools"), i))
		if err != nil {
			return err
		}
		if err := t.tool(o, ""); err != nil {
			return err
		}
	}
	return nil
}

// chatTool is the function of a tool.
type chatTool struct {
	name    string
	members map[string]json.RawMessage
}

// toolsAndChoice reads the tools and which of them may be called.
func (t *translator) toolsAndChoice() error {
	if err := t.tools(t.in); err != nil {
		return err
	}
	if err := t.choice(); err != nil {
		return err
	}
	var out []any
	for _, f := range t.functions {
		out = append(out, function(f.name, f.members))
	}
	if len(out) > 0 {
		t.chat["tools"] = out
	}
	return nil
}

// tool adds a tool of a namespace, "" for none.
func (t *translator) tool(o clientapi.Object, namespace string) error {
	kind, err := o.Text("type")
	if err != nil {
		return err
	}
	switch {
	case kind == "function":
		return t.function(o, namespace)
	case kind == "custom":
		return t.custom(o, namespace)
	case kind == "namespace" && namespace == "":
		return t.namespace(o)
	case slices.Contains(providerTools, kind) && namespace == "":
		if t.dropsTool == "" {
			t.dropsTool = o.Member("type")
		}
		t.dropped.Add(o.At + " " + kind)
		return nil
	}
	return o.EngineOnly("type", clientapi.ReasonTool)
}

func (t *translator) namespace(o clientapi.Object) error {
	if err := o.Only("type", "name", "description", "tools", "defer_loading"); err != nil {
		return err
	}
	name, err := o.Required("name")
	if err != nil {
		return err
	}
	list, err := o.List("tools")
	if err != nil {
		return err
	}
	for i, raw := range list {
		inner, err := clientapi.ReadObject(raw, clientapi.Element(o.Member("tools"), i))
		if err != nil {
			return err
		}
		if err := t.tool(inner, name); err != nil {
			return err
		}
	}
	return nil
}

// add adds the function of a tool.
func (t *translator) add(o clientapi.Object, n toolName, members map[string]json.RawMessage) error {
	chat := n.chatName()
	switch other, ok := t.names[chat]; {
	case ok && other != n:
		return clientapi.BadValue(o.Member("name"), "is, with its namespace, the name of another tool, too.")
	case ok: // clients repeat additional tools
		return nil
	}
	t.names[chat] = n
	t.functions = append(t.functions, chatTool{chat, members})
	return nil
}

func (t *translator) function(o clientapi.Object, namespace string) error {
	if err := o.Only("type", "name", "description", "parameters", "strict", "defer_loading", "output_schema", "allowed_callers"); err != nil {
		return err
	}
	name, err := o.Required("name")
	if err != nil {
		return err
	}
	return t.add(o, toolName{namespace: namespace, name: name}, members(o, "description", "parameters", "strict"))
}

// customInput is the member of a custom tool's function that holds the text.
const customInput = "input"

// customParameters is the schema of a custom tool's function.
const customParameters = `{"type":"object","properties":{"` + customInput + `":{"type":"string","description":"The tool's whole input, as plain text."}},"required":["` + customInput + `"],"additionalProperties":false}`

// custom adds a tool that takes a text: chats have functions only, so the text is the only member of an object. Its grammar is
// told in the description; the engine is not held to it.
func (t *translator) custom(o clientapi.Object, namespace string) error {
	if err := o.Only("type", "name", "description", "format", "defer_loading", "allowed_callers"); err != nil {
		return err
	}
	name, err := o.Required("name")
	if err != nil {
		return err
	}
	description, err := o.Text("description")
	if err != nil {
		return err
	}
	format, err := o.Object("format")
	if err != nil {
		return err
	}
	if err := format.Only("type", "syntax", "definition"); err != nil {
		return err
	}
	syntax, err := format.Text("syntax")
	if err != nil {
		return err
	}
	definition, err := format.Text("definition")
	if err != nil {
		return err
	}
	if definition != "" {
		description = strings.TrimSpace(description + "\n\nThe input must match this grammar (" + syntax + "):\n" + definition)
	}
	text, err := encode(description)
	if err != nil {
		return err
	}
	return t.add(o, toolName{namespace, name, true}, map[string]json.RawMessage{"description": text, "parameters": json.RawMessage(customParameters)})
}

func (t *translator) choice() error {
	const at = "tool_choice"
	raw := t.in.Raw(at)
	if !t.in.Has(at) {
		return nil
	}
	if raw[0] == '"' {
		return t.choose(string(raw))
	}
	o, err := t.in.Object(at)
	if err != nil {
		return err
	}
	switch kind := string(o.Raw("type")); kind {
	case `"function"`, `"custom"`:
		name, err := t.chosen(o)
		if err == nil {
			t.chat[at] = function(name, map[string]json.RawMessage{})
		}
		return err
	case `"allowed_tools"`:
		return t.allowedTools(o)
	}
	return o.EngineOnly("type", clientapi.ReasonTool)
}

// choose takes a choice in one word, which is quoted. Engines refuse it without tools.
func (t *translator) choose(word string) error {
	const at = "tool_choice"
	demands := word != `"auto"` && word != `"none"`
	switch {
	case len(t.functions) > 0:
		t.chat[at] = json.RawMessage(word)
	case demands && t.dropsTool != "":
		return &clientapi.EngineOnlyError{Field: t.dropsTool, Reason: clientapi.ReasonTool}
	case demands:
		return clientapi.BadValue(at, "demands a call, but there are no tools.")
	}
	return nil
}

// chosen is the chat's name of the tool that an object names.
func (t *translator) chosen(o clientapi.Object) (string, error) {
	if err := o.Only("type", "name", "namespace"); err != nil {
		return "", err
	}
	name, err := o.Required("name")
	if err != nil {
		return "", err
	}
	namespace, err := o.Text("namespace")
	if err != nil {
		return "", err
	}
	chat := toolName{namespace: namespace, name: name}.chatName()
	if _, ok := t.names[chat]; !ok {
		return "", clientapi.BadValue(o.Member("name"), "is the name of no tool.")
	}
	return chat, nil
}

// allowedTools leaves only some of the tools.
func (t *translator) allowedTools(o clientapi.Object) error {
	if err := o.Only("type", "mode", "tools"); err != nil {
		return err
	}
	list, err := o.List("tools")
	if err != nil {
		return err
	}
	var names []string
	for i, raw := range list {
		one, err := clientapi.ReadObject(raw, clientapi.Element(o.Member("tools"), i))
		if err != nil {
			return err
		}
		if kind, _ := one.Text("type"); slices.Contains(providerTools, kind) {
			continue // it was dropped
		}
		name, err := t.chosen(one)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	t.functions = slices.DeleteFunc(t.functions, func(f chatTool) bool { return !slices.Contains(names, f.name) })
	mode, err := o.Text("mode")
	switch {
	case err != nil:
		return err
	case mode != "auto" && mode != "required":
		return clientapi.BadValue(o.Member("mode"), "must be auto or required.")
	}
	return t.choose(`"` + mode + `"`)
}

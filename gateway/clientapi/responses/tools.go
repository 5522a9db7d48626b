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

// toolsAndChoice reads the tools and which of them may be called.
func (t *translator) toolsAndChoice() {
	t.tools(t.In, "")
	t.choice()
}

// tools adds the tools that an object lists, of a namespace; "" for none.
func (t *translator) tools(of clientapi.Object, namespace string) {
	for _, o := range of.Objects("tools") {
		switch kind := o.Text("type"); {
		case kind == "function":
			o.Only("type", "name", "description", "parameters", "strict", "defer_loading", "output_schema", "allowed_callers")
			t.add(o, toolName{namespace: namespace, name: o.Required("name")}, o.Members("description", "parameters", "strict"))
		case kind == "custom":
			t.custom(o, namespace)
		case kind == "namespace" && namespace == "":
			o.Only("type", "name", "description", "tools", "defer_loading")
			t.tools(o, o.Required("name"))
		case slices.Contains(providerTools, kind) && namespace == "":
			t.DropTool(o)
		default:
			o.EngineOnly("type", clientapi.ReasonTool)
		}
	}
}

// add adds the function of a tool.
func (t *translator) add(o clientapi.Object, n toolName, members map[string]json.RawMessage) {
	chat := n.chatName()
	switch other, ok := t.names[chat]; {
	case ok && other != n:
		o.BadValue("name", "is, with its namespace, the name of another tool, too.")
	case !ok: // clients repeat additional tools
		t.names[chat] = n
		t.Tools = append(t.Tools, clientapi.ChatTool{Name: chat, Members: members})
	}
}

// customInput is the member of a custom tool's function that holds the text.
const customInput = "input"

// customParameters is the schema of a custom tool's function.
const customParameters = `{"type":"object","properties":{"` + customInput + `":{"type":"string","description":"The tool's whole input, as plain text."}},"required":["` + customInput + `"],"additionalProperties":false}`

// custom adds a tool that takes a text: chats have functions only, so the text is the only member of an object. Its grammar is
// told in the description; the engine is not held to it.
func (t *translator) custom(o clientapi.Object, namespace string) {
	o.Only("type", "name", "description", "format", "defer_loading", "allowed_callers")
	name, description, format := o.Required("name"), o.Text("description"), o.Object("format")
	format.Only("type", "syntax", "definition")
	syntax, definition := format.Text("syntax"), format.Text("definition")
	if definition != "" {
		description = strings.TrimSpace(description + "\n\nThe input must match this grammar (" + syntax + "):\n" + definition)
	}
	t.add(o, toolName{namespace, name, true}, map[string]json.RawMessage{"description": clientapi.Encode(description), "parameters": json.RawMessage(customParameters)})
}

func (t *translator) choice() {
	const at = "tool_choice"
	raw := t.In.Raw(at)
	if !t.In.Has(at) {
		return
	}
	if raw[0] == '"' {
		t.choose(string(raw))
		return
	}
	o := t.In.Object(at)
	switch kind := string(o.Raw("type")); kind {
	case `"function"`, `"custom"`:
		t.Members[at] = clientapi.Function(t.chosen(o), map[string]json.RawMessage{})
	case `"allowed_tools"`:
		t.allowedTools(o)
	default:
		o.EngineOnly("type", clientapi.ReasonTool)
	}
}

// choose takes a choice in one word, which is quoted. Engines refuse it without tools.
func (t *translator) choose(word string) {
	const at = "tool_choice"
	demands := word != `"auto"` && word != `"none"`
	switch {
	case len(t.Tools) > 0:
		t.Members[at] = json.RawMessage(word)
	case demands && t.DroppedTool != "":
		t.NeedDroppedTool()
	case demands:
		t.In.BadValue(at, "demands a call, but there are no tools.")
	}
}

// chosen is the chat's name of the tool that an object names.
func (t *translator) chosen(o clientapi.Object) string {
	o.Only("type", "name", "namespace")
	chat := toolName{name: o.Required("name"), namespace: o.Text("namespace")}.chatName()
	if _, ok := t.names[chat]; !ok {
		o.BadValue("name", "is the name of no tool.")
	}
	return chat
}

// allowedTools leaves only some of the tools.
func (t *translator) allowedTools(o clientapi.Object) {
	o.Only("type", "mode", "tools")
	var names []string
	for _, one := range o.Objects("tools") {
		if !slices.Contains(providerTools, one.Text("type")) { // else it was dropped
			names = append(names, t.chosen(one))
		}
	}
	t.Tools = slices.DeleteFunc(t.Tools, func(f clientapi.ChatTool) bool { return !slices.Contains(names, f.Name) })
	mode := o.Text("mode")
	if mode != "auto" && mode != "required" {
		o.BadValue("mode", "must be auto or required.")
	}
	t.choose(`"` + mode + `"`)
}

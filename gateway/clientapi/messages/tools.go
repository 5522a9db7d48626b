package messages

import (
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// serverTools begin the types of tools that only the provider's servers could run.
var serverTools = []string{"web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_", "mcp_toolset"}

// tools adds the tools that the client runs. Those of the provider's servers are left out.
func (t *translator) tools() {
	for _, o := range t.In.Objects("tools") {
		switch kind := o.Text("type"); {
		case slices.ContainsFunc(serverTools, func(s string) bool { return strings.HasPrefix(kind, s) }):
			t.DropTool(o)
		case kind != "" && kind != "custom":
			o.EngineOnly("type", clientapi.ReasonTool)
		default:
			t.tool(o)
		}
	}
}

// toolMembers are the members of a tool that are read, and hints: cache_control, which engines that cache every prefix do not
// need, and eager_input_streaming, as engines stream calls as they come.
var toolMembers = append([]string{"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}, toolTuning...)

// toolTuning are members of a tool that only tune the provider's servers: every tool is offered from the start, and called by
// the model alone.
var toolTuning = []string{"defer_loading", "input_examples", "allowed_callers"}

// tool adds one tool.
func (t *translator) tool(o clientapi.Object) {
	o.Only(toolMembers...)
	t.Drop(o, toolTuning)
	members := o.Members("description")
	if o.Text("description") == "" {
		delete(members, "description")
	}
	if o.NeedObject("input_schema"); o.Flag("strict") {
		members["strict"] = o.Raw("strict")
	}
	members["parameters"] = o.Raw("input_schema")
	t.Tools = append(t.Tools, clientapi.ChatTool{Name: o.Required("name"), Members: members})
}

// choice says which tools may be called. A request that forces a tool that was left out cannot be answered.
func (t *translator) choice() {
	const at = "tool_choice"
	if !t.In.Has(at) {
		return
	}
	c := t.In.Object(at)
	c.Only("type", "name", "disable_parallel_tool_use")
	var choice any
	kind := c.Required("type")
	switch kind {
	case "auto", "none":
		choice = kind
	case "any":
		choice = "required"
	case "tool":
		choice = map[string]any{"type": "function", "function": map[string]string{"name": c.Required("name")}}
	default:
		c.BadValue("type", "is none of auto, any, tool, none.")
	}
	none := len(t.Tools) == 0
	if dropped := t.DroppedTool != ""; dropped && (kind == "any" && none || kind == "tool" && !t.HasTool(c.Text("name"))) {
		t.NeedDroppedTool()
	} else if dropped && none {
		return
	}
	if t.Members[at] = choice; c.Flag("disable_parallel_tool_use") {
		t.Members["parallel_tool_calls"] = false
	}
}

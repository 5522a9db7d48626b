package messages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// serverTools begin the types of tools that only the provider's servers could run.
var serverTools = []string{"web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_", "mcp_toolset"}

// tools appends the tools that the client runs. Those of the provider's servers are left out.
func (t *translator) tools(dst []byte) []byte {
	before := len(dst)
	dst = append(dst, `,"tools":[`...)
	for _, o := range t.in.Objects("tools") {
		switch kind := o.Text("type"); {
		case slices.ContainsFunc(serverTools, func(s string) bool { return strings.HasPrefix(kind, s) }):
			t.dropped.Add(o.At + " " + kind)
			t.server = cmp.Or(t.server, o.Member("type"))
		case kind != "" && kind != "custom":
			o.EngineOnly("type", clientapi.ReasonTool)
		default:
			dst = t.tool(dst, o)
			t.names = append(t.names, o.Text("name"))
		}
	}
	if len(t.names) == 0 {
		return dst[:before]
	}
	return closed(dst)
}

// toolMembers are the members of a tool that are read, and hints: cache_control, which engines that cache every prefix do not
// need, and eager_input_streaming, as engines stream calls as they come.
var toolMembers = append([]string{"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}, toolTuning...)

// toolTuning are members of a tool that only tune the provider's servers: every tool is offered from the start, and called by
// the model alone.
var toolTuning = []string{"defer_loading", "input_examples", "allowed_callers"}

// tool appends one tool, with a comma.
func (t *translator) tool(dst []byte, o clientapi.Object) []byte {
	o.Only(toolMembers...)
	for _, name := range toolTuning {
		if o.Has(name) {
			t.dropped.Add(o.Member(name))
		}
	}
	dst = openai.AppendQuote(append(dst, `{"type":"function","function":{"name":`...), o.Required("name"))
	if about := o.Text("description"); about != "" {
		dst = openai.AppendQuote(append(dst, `,"description":`...), about)
	}
	o.NeedObject("input_schema")
	if o.Flag("strict") {
		dst = append(dst, `,"strict":true`...)
	}
	return append(clientapi.AppendCompact(append(dst, `,"parameters":`...), o.Raw("input_schema")), "}},"...)
}

// choice appends which tools may be called. A request that forces a tool that was left out cannot be answered.
func (t *translator) choice(dst []byte) []byte {
	if !t.in.Has("tool_choice") {
		return dst
	}
	c := t.in.Object("tool_choice")
	c.Only("type", "name", "disable_parallel_tool_use")
	kind := c.Required("type")
	free := kind == "auto" || kind == "none"
	if t.server != "" && len(t.names) == 0 {
		if !free {
			t.needsServer()
		}
		return dst
	}
	switch {
	case free:
		dst = append(dst, `,"tool_choice":"`+kind+`"`...)
	case kind == "any":
		dst = append(dst, `,"tool_choice":"required"`...)
	case kind == "tool":
		name := c.Required("name")
		if t.server != "" && !slices.Contains(t.names, name) {
			t.needsServer()
		}
		dst = openai.AppendQuote(append(dst, `,"tool_choice":{"type":"function","function":{"name":`...), name)
		dst = append(dst, "}}"...)
	default:
		c.BadValue("type", "is none of auto, any, tool, none.")
	}
	if c.Flag("disable_parallel_tool_use") {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst
}

// needsServer fails for a request that forces a tool that was left out.
func (t *translator) needsServer() {
	t.in.Fail(&clientapi.EngineOnlyError{Field: t.server, Reason: clientapi.ReasonTool})
}

package messages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// serverTools begin the types of tools that only the provider's servers could run.
var serverTools = []string{"web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_", "mcp_toolset"}

// tools appends the tools that the client runs. Those of the provider's servers are left out.
func (t *translator) tools(dst []byte) ([]byte, error) {
	l, err := t.in.List("tools")
	if err != nil || len(l) == 0 {
		return dst, err
	}
	before := len(dst)
	dst = append(dst, `,"tools":[`...)
	for i, raw := range l {
		o, err := clientapi.ReadObject(raw, clientapi.Element("tools", i))
		if err != nil {
			return nil, err
		}
		kind, err := o.Text("type")
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(serverTools, func(s string) bool { return strings.HasPrefix(kind, s) }) {
			t.dropped.Add(o.At + " " + kind)
			if t.server == "" {
				t.server = o.Member("type")
			}
			continue
		}
		if kind != "" && kind != "custom" {
			return nil, o.EngineOnly("type", clientapi.ReasonTool)
		}
		if dst, err = t.tool(dst, o); err != nil {
			return nil, err
		}
		t.names = append(t.names, o.Raw("name"))
	}
	if len(t.names) == 0 {
		return dst[:before], nil
	}
	return closed(dst), nil
}

// toolMembers are the members of a tool that are read, and hints: cache_control, which engines that cache every prefix do not
// need, and eager_input_streaming, as engines stream calls as they come.
var toolMembers = append([]string{"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}, toolTuning...)

// toolTuning are members of a tool that only tune the provider's servers: every tool is offered from the start, and called by
// the model alone.
var toolTuning = []string{"defer_loading", "input_examples", "allowed_callers"}

// tool appends one tool, with a comma.
func (t *translator) tool(dst []byte, o clientapi.Object) ([]byte, error) {
	if err := o.Only(toolMembers...); err != nil {
		return nil, err
	}
	for _, name := range toolTuning {
		if o.Has(name) {
			t.dropped.Add(o.Member(name))
		}
	}
	name, err := o.Required("name")
	if err != nil {
		return nil, err
	}
	about, err := o.Text("description")
	if err != nil {
		return nil, err
	}
	if !o.IsObject("input_schema") {
		return nil, clientapi.BadType(o.Member("input_schema"), "is required, and is an object.")
	}
	dst = openai.AppendQuote(append(dst, `{"type":"function","function":{"name":`...), name)
	if about != "" {
		dst = openai.AppendQuote(append(dst, `,"description":`...), about)
	}
	strict, err := o.Flag("strict")
	if strict {
		dst = append(dst, `,"strict":true`...)
	}
	return append(clientapi.AppendCompact(append(dst, `,"parameters":`...), o.Raw("input_schema")), "}},"...), err
}

// choice appends which tools may be called. A request that forces a tool that was left out cannot be answered.
func (t *translator) choice(dst []byte) ([]byte, error) {
	if !t.in.Has("tool_choice") {
		return dst, nil
	}
	c, err := t.in.Object("tool_choice")
	if err != nil {
		return nil, err
	}
	if err := c.Only("type", "name", "disable_parallel_tool_use"); err != nil {
		return nil, err
	}
	kind, err := c.Required("type")
	if err != nil {
		return nil, err
	}
	if t.server != "" && len(t.names) == 0 {
		switch kind {
		case "auto", "none":
			return dst, nil
		}
		return nil, &clientapi.EngineOnlyError{Field: t.server, Reason: clientapi.ReasonTool}
	}
	switch kind {
	case "auto", "none":
		dst = append(dst, `,"tool_choice":"`+kind+`"`...)
	case "any":
		dst = append(dst, `,"tool_choice":"required"`...)
	case "tool":
		name, err := c.Required("name")
		if err != nil {
			return nil, err
		}
		if t.server != "" && !slices.ContainsFunc(t.names, func(raw json.RawMessage) bool { return string(raw) == string(c.Raw("name")) }) {
			return nil, &clientapi.EngineOnlyError{Field: t.server, Reason: clientapi.ReasonTool}
		}
		dst = openai.AppendQuote(append(dst, `,"tool_choice":{"type":"function","function":{"name":`...), name)
		dst = append(dst, "}}"...)
	default:
		return nil, clientapi.BadValue(c.Member("type"), "is none of auto, any, tool, none.")
	}
	single, err := c.Flag("disable_parallel_tool_use")
	if single {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst, err
}

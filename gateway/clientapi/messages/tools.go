package messages

import (
	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// appendTools appends the tools that the client runs.
func appendTools(dst []byte, o clientapi.Object) ([]byte, error) {
	l, err := o.List("tools")
	if err != nil || len(l) == 0 {
		return dst, err
	}
	dst = append(dst, `,"tools":[`...)
	for i, raw := range l {
		t, err := clientapi.ReadObject(raw, clientapi.Element("tools", i))
		if err != nil {
			return nil, err
		}
		kind, err := t.Text("type")
		if err != nil {
			return nil, err
		}
		if kind != "" && kind != "custom" {
			return nil, t.EngineOnly("type", clientapi.ReasonTool)
		}
		if dst, err = appendTool(dst, t); err != nil {
			return nil, err
		}
	}
	return closed(dst), nil
}

// toolMembers are the members of a tool that are read, and hints: cache_control, which engines that cache every prefix do not
// need, and eager_input_streaming, as engines stream calls as they come.
var toolMembers = []string{"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}

// appendTool appends one tool, with a comma.
func appendTool(dst []byte, t clientapi.Object) ([]byte, error) {
	if err := t.Only(toolMembers...); err != nil {
		return nil, err
	}
	name, err := t.Required("name")
	if err != nil {
		return nil, err
	}
	about, err := t.Text("description")
	if err != nil {
		return nil, err
	}
	if !t.IsObject("input_schema") {
		return nil, clientapi.BadType(t.Member("input_schema"), "is required, and is an object.")
	}
	dst = openai.AppendQuote(append(dst, `{"type":"function","function":{"name":`...), name)
	if about != "" {
		dst = openai.AppendQuote(append(dst, `,"description":`...), about)
	}
	strict, err := t.Flag("strict")
	if strict {
		dst = append(dst, `,"strict":true`...)
	}
	return append(clientapi.AppendCompact(append(dst, `,"parameters":`...), t.Raw("input_schema")), "}},"...), err
}

// appendChoice appends which tools may be called.
func appendChoice(dst []byte, o clientapi.Object) ([]byte, error) {
	if !o.Has("tool_choice") {
		return dst, nil
	}
	c, err := o.Object("tool_choice")
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

package responses

import (
	"github.com/foregate/foregate/gateway/clientapi"
)

// function returns a function as chat completions write it: its members are one level deeper.
func function(o clientapi.Object, names ...string) map[string]any {
	return map[string]any{"type": "function", "function": members(o, names...)}
}

func (t *translator) tools() error {
	list, err := t.in.List("tools")
	if err != nil {
		return err
	}
	var out []any
	for i, raw := range list {
		o, err := clientapi.ReadObject(raw, clientapi.Element("tools", i))
		if err != nil {
			return err
		}
		if string(o.Raw("type")) != `"function"` {
			return o.EngineOnly("type", clientapi.ReasonTool)
		}
		if err := o.Only("type", "name", "description", "parameters", "strict"); err != nil {
			return err
		}
		if _, err := o.Required("name"); err != nil {
			return err
		}
		out = append(out, function(o, "name", "description", "parameters", "strict"))
	}
	if len(out) > 0 {
		t.chat["tools"] = out
	}
	return nil
}

func (t *translator) choice() error {
	const at = "tool_choice"
	raw := t.in.Raw(at)
	switch {
	case !t.in.Has(at), t.chat["tools"] == nil && (string(raw) == `"auto"` || string(raw) == `"none"`):
		return nil // engines refuse it without tools
	case t.chat["tools"] == nil:
		return clientapi.BadValue(at, "demands a call, but there are no tools.")
	case raw[0] == '"':
		t.chat[at] = raw
		return nil
	}
	o, err := t.in.Object(at)
	if err != nil {
		return err
	}
	switch string(o.Raw("type")) {
	case `"function"`:
	case `"allowed_tools"`:
		return o.EngineOnly("type", clientapi.ReasonNoChat)
	default:
		return o.EngineOnly("type", clientapi.ReasonTool)
	}
	if err := o.Only("type", "name"); err != nil {
		return err
	}
	_, err = o.Required("name")
	t.chat[at] = function(o, "name")
	return err
}

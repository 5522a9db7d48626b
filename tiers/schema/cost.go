package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxCost is the maximum cost of one check, in evaluations of a small schema against a small value: at about
// 0.3 µs each, a tenth of a second. Ordinary checks cost tens or hundreds.
const maxCost = 1 << 18

// longestChain is the maximum number of schemas that apply to one value through one another.
const longestChain = 64

// meter is the remaining budget of a check. The library cannot be interrupted, and takes exponential time for
// nested alternatives. So the meter first walks schema and value and takes every branch. This gives an upper
// bound of the evaluations. It stops when the budget is used up.
type meter struct {
	remaining int
	uneval    bool // a schema uses unevaluated…: from then on, all schemas record what they evaluated
}

func newMeter() *meter { return &meter{remaining: maxCost} }

// allows reports whether the rest of the budget is enough to check a value, and subtracts the cost.
func (m *meter) allows(s *jsonschema.Schema, v any) bool {
	m.schema(s, v, 0)
	return m.remaining >= 0
}

func (m *meter) spend(n int) { m.remaining -= n }

// typeOf returns the types of a value that a schema's "type" may allow.
func typeOf(v any) (t jsonschema.Types) {
	switch v.(type) {
	case nil:
		t.Add("null")
	case bool:
		t.Add("boolean")
	case string:
		t.Add("string")
	case []any:
		t.Add("array")
	case map[string]any:
		t.Add("object")
	default:
		t.Add("number")
		t.Add("integer")
	}
	return t
}

// schema counts the evaluation of a value; chain is the number of schemas from the first one that applies to
// it.
func (m *meter) schema(s *jsonschema.Schema, v any, chain int) {
	if s == nil || m.remaining < 0 {
		return
	}
	if m.spend(1 + chain/4); s.Bool != nil {
		return
	}
	if chain > longestChain || s.DynamicRef != nil || s.RecursiveRef != nil { // their target depends on the path to them
		m.remaining = -1
		return
	}
	if m.uneval = m.uneval || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil; m.uneval {
		m.spend(members(v) / 2)
	}
	if s.Types != nil && *s.Types != 0 && *s.Types&typeOf(v) == 0 {
		return // the library stops here, too
	}
	m.constants(s, v)
	m.schema(s.Ref, v, chain+1)
	switch v := v.(type) {
	case map[string]any:
		m.object(s, v, chain)
	case []any:
		m.array(s, v)
	case string:
		m.spend(len(v) / 256)
		if s.Pattern != nil {
			m.match(s.Pattern, v)
		}
	case json.Number:
		m.spend(8)
	}
	for _, some := range [...][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.Not, s.If, s.Then, s.Else}} {
		for _, sub := range some {
			m.schema(sub, v, chain+1)
		}
	}
}

// members is the number of direct members of a value.
func members(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

// constants counts comparisons with constants, and formats, which only old drafts check. One of these compiles its text as a
// regular expression.
func (m *meter) constants(s *jsonschema.Schema, v any) {
	n := 0
	if s.Const != nil {
		n = 1
	}
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	if n > 0 {
		m.spend(n * m.size(v) / 4)
	}
	if text, is := v.(string); is && s.Format != nil {
		if m.spend(1 + len(text)/16); s.Format.Name == "regex" && len(text) > 0 {
			m.remaining = -1
		}
	}
}

// size is the number of values in a value, including itself, plus the cost of its texts. Computing it has a
// cost, too.
func (m *meter) size(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		return 1 + len(v)/256
	case json.Number:
		return 4
	case []any:
		for _, item := range v {
			n += m.size(item)
		}
		m.spend(len(v) / 4)
	case map[string]any:
		for _, member := range v {
			n += m.size(member)
		}
		m.spend(len(v) / 4)
	}
	return n
}

// match counts the run of a regular expression over a text.
func (m *meter) match(re jsonschema.Regexp, text string) {
	steps := maxSteps
	if p, ok := re.(pattern); ok {
		steps = p.steps
	}
	m.spend(1 + steps*len(text)/8)
}

func (m *meter) object(s *jsonschema.Schema, obj map[string]any, chain int) {
	m.spend(len(obj) + (len(s.Required)+len(s.Dependencies)+len(s.DependentSchemas)+len(s.DependentRequired))/4)
	for name, v := range obj {
		if m.remaining < 0 {
			return
		}
		m.schema(s.Properties[name], v, 0)
		for re, sub := range s.PatternProperties {
			if m.match(re, name); m.remaining >= 0 && re.MatchString(name) {
				m.schema(sub, v, 0)
			}
		}
		if s.Properties[name] == nil {
			m.either(s.AdditionalProperties, v, 0)
		}
		m.schema(s.UnevaluatedProperties, v, 0)
		m.schema(s.PropertyNames, name, 0)
		m.schema(s.DependentSchemas[name], obj, chain+1)
		m.spend(len(s.DependentRequired[name]))
		m.either(s.Dependencies[name], obj, chain+1)
		if names, is := s.Dependencies[name].([]string); is {
			m.spend(len(names))
		}
	}
}

// either counts the evaluation of what may be a schema.
func (m *meter) either(schema, v any, chain int) {
	if s, is := schema.(*jsonschema.Schema); is {
		m.schema(s, v, chain)
	}
}

func (m *meter) array(s *jsonschema.Schema, items []any) {
	m.spend(len(items) / 4)
	if s.UniqueItems {
		m.spend(len(items)*len(items)/16 + 2*m.size(items))
	}
	for i, v := range items {
		if m.remaining < 0 {
			return
		}
		if i < len(s.PrefixItems) {
			m.schema(s.PrefixItems[i], v, 0)
		} else {
			m.schema(s.Items2020, v, 0)
		}
		m.either(s.Items, v, 0)
		if old, is := s.Items.([]*jsonschema.Schema); is && i < len(old) {
			m.schema(old[i], v, 0)
		}
		m.either(s.AdditionalItems, v, 0)
		m.schema(s.Contains, v, 0)
		m.schema(s.UnevaluatedItems, v, 0)
	}
}

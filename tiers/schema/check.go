package schema

import (
	"encoding/json"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxSteps   = 1 << 18 // of one check: about .3 µs each. Ordinary checks take tens or hundreds
	maxChain   = 512     // schemas that are being checked, one inside the other
	maxPattern = 512     // bytes of a regular expression
	maxProgram = 1024    // instructions of one
	maxDigits  = 64      // of a number
)

// checker checks a value against a schema. What it finds counts only while it is not stuck.
type checker struct {
	root  any
	old   bool // draft 4, 6 or 7: beside $ref nothing counts
	left  *int // steps of the budget
	chain int  // schemas that are being checked
	stuck bool // the schema cannot be checked, or the budget is used up

	patterns map[string]pattern
}

// check checks a value against a schema's text, "" or a reason, and takes its steps from left.
func check(schema []byte, v any, left *int) (reason string) {
	root, reason := decode(schema, maxText)
	if reason != "" {
		return ReasonUnusable
	}
	c := checker{root: root, left: left, patterns: map[string]pattern{}}
	if top, is := root.(map[string]any); is {
		dialect, _ := top["$schema"].(string)
		c.stuck = dialect != "" && !strings.Contains(dialect, "://json-schema.org/draft")
		c.old = strings.Contains(dialect, "/draft-0")
		delete(top, "$schema")
		delete(top, "$id")
	}
	switch fits := c.fits(root, v); {
	case c.stuck:
		return ReasonUnusable
	case !fits:
		return ReasonMismatch
	}
	return ""
}

// spend takes steps from the budget.
func (c *checker) spend(n int) {
	*c.left -= n
	c.stuck = c.stuck || *c.left < 0
}

// as returns a keyword's value, which must be of a type if it is there.
func as[T any](c *checker, arg any) T {
	v, is := arg.(T)
	c.stuck = c.stuck || !is && arg != nil
	return v
}

// unchecked are keywords that say something of a value, or of what others mean, and that are not known here.
var unchecked = []string{
	"$id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "dependencies", "dependentRequired",
	"dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "contains", "minContains", "maxContains",
	"if", "then", "else", "multipleOf",
}

// fits reports whether a value fits a schema.
func (c *checker) fits(schema, v any) bool {
	if all, is := schema.(bool); is {
		return all
	}
	s, is := schema.(map[string]any)
	if _, refers := s["$ref"]; refers && c.old {
		s = map[string]any{"$ref": s["$ref"]}
	}
	c.stuck = c.stuck || !is || c.chain > maxChain || slices.ContainsFunc(unchecked, func(name string) bool { return s[name] != nil })
	if c.spend(1 + c.chain/8); c.stuck {
		return false
	}
	c.chain++
	defer func() { c.chain-- }()
	return c.isOf(s["type"], v) && c.constant(s, v) && c.shaped(s, v) && c.refers(s["$ref"], v) && c.combined(s, v) && !c.stuck
}

// isOf reports whether a value is of one of the types that a schema names.
func (c *checker) isOf(types, v any) bool {
	names, several := types.([]any)
	if !several && types != nil {
		names = []any{types}
	}
	is := types == nil
	c.spend(len(names) / 8)
	for _, name := range names {
		switch name {
		case "null":
			is = is || v == nil
		case "boolean":
			_, ok := v.(bool)
			is = is || ok
		case "string":
			_, ok := v.(string)
			is = is || ok
		case "array":
			_, ok := v.([]any)
			is = is || ok
		case "object":
			_, ok := v.(map[string]any)
			is = is || ok
		case "number", "integer":
			n, ok := v.(json.Number)
			is = is || ok && (name == "number" || math.Trunc(c.number(n)) == c.number(n))
		default:
			c.stuck = true
		}
	}
	return is
}

// constant checks what a value must be equal to.
func (c *checker) constant(s map[string]any, v any) bool {
	if one, has := s["const"]; has && !c.equal(one, v) {
		return false
	}
	return s["enum"] == nil || slices.ContainsFunc(as[[]any](c, s["enum"]), func(one any) bool { return c.equal(one, v) })
}

// equal reports whether two values are the same.
func (c *checker) equal(a, b any) bool {
	if c.spend(1); c.stuck {
		return false
	}
	switch a := a.(type) {
	case json.Number:
		n, is := b.(json.Number)
		fractions := strings.ContainsAny(string(a+n), ".eE") // integers may be too long for a double
		return is && (a == n || fractions && c.number(a) == c.number(n))
	case string:
		c.spend(len(a) / 256)
	case []any:
		list, is := b.([]any)
		return is && slices.EqualFunc(a, list, c.equal)
	case map[string]any:
		o, is := b.(map[string]any)
		for name, v := range a {
			other, has := o[name]
			if is = is && len(a) == len(o) && has && c.equal(v, other); !is {
				return false
			}
		}
		return is && len(a) == len(o)
	}
	return a == b
}

// number returns the value of a number.
func (c *checker) number(v any) float64 {
	c.spend(1)
	n := as[json.Number](c, v)
	f, err := n.Float64()
	c.stuck = c.stuck || err != nil || len(n) > maxDigits
	return f
}

// shaped checks what keywords say of values of one type.
func (c *checker) shaped(s map[string]any, v any) bool {
	switch v := v.(type) {
	case string:
		c.spend(len(v) / 256)
		n := float64(utf8.RuneCountInString(v))
		return c.between(s, n, "minLength", "maxLength") && (s["pattern"] == nil || c.matches(as[string](c, s["pattern"]), v))
	case json.Number:
		n := c.number(v)
		for _, name := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
			if s[name] != nil && n == c.number(s[name]) {
				return false
			}
		}
		return c.between(s, n, "minimum", "maximum") && c.between(s, n, "exclusiveMinimum", "exclusiveMaximum")
	case []any:
		return c.between(s, float64(len(v)), "minItems", "maxItems") && c.unique(as[bool](c, s["uniqueItems"]), v) && c.elements(s, v)
	case map[string]any:
		return c.between(s, float64(len(v)), "minProperties", "maxProperties") && c.members(s, v)
	}
	return true
}

// between checks two bounds of a number.
func (c *checker) between(s map[string]any, n float64, least, most string) bool {
	return (s[least] == nil || n >= c.number(s[least])) && (s[most] == nil || n <= c.number(s[most]))
}

// pattern is a regular expression with its instructions: a match runs at most all of them for each byte. Go's have no
// lookaround or back-references.
type pattern struct {
	*regexp.Regexp
	steps int
}

// matches reports whether a regular expression is found in a text.
func (c *checker) matches(expression, text string) bool {
	p, known := c.patterns[expression]
	if !known && !c.stuck {
		p = compile(expression)
		c.patterns[expression] = p
		c.spend(len(expression) + 32*p.steps)
	}
	c.spend(1 + p.steps*len(text)/8)
	c.stuck = c.stuck || p.Regexp == nil
	return !c.stuck && p.MatchString(text)
}

// compile returns a regular expression, without one where it is beyond the bounds.
func compile(expression string) (p pattern) {
	if len(expression) > maxPattern {
		return p
	}
	if tree, err := syntax.Parse(expression, syntax.Perl); err == nil && instructions(tree) <= maxProgram {
		if program, err := syntax.Compile(tree.Simplify()); err == nil && len(program.Inst) <= maxProgram {
			p.steps = len(program.Inst)
			p.Regexp, _ = regexp.Compile(expression)
		}
	}
	return p
}

// instructions is about how many a regular expression has with its repetitions written out. It is known before these take memory.
func instructions(tree *syntax.Regexp) (n int) {
	for _, sub := range tree.Sub {
		n += instructions(sub)
	}
	switch tree.Op {
	case syntax.OpLiteral:
		return len(tree.Rune)
	case syntax.OpRepeat:
		return n * max(tree.Min, tree.Max, 1)
	}
	return n + 1
}

func (c *checker) unique(asked bool, list []any) bool {
	for i := 0; asked && i < len(list) && !c.stuck; i++ {
		if slices.ContainsFunc(list[:i], func(other any) bool { return c.equal(list[i], other) }) {
			return false
		}
	}
	return true
}

// elements checks those of a list: the first ones by a schema each, the others by one. Before draft 2020-12 both are called
// items.
func (c *checker) elements(s map[string]any, list []any) bool {
	first, rest := s["prefixItems"], s["items"]
	if _, several := rest.([]any); several {
		first, rest = rest, s["additionalItems"]
	}
	each := as[[]any](c, first)
	c.spend(len(list) / 32)
	for i, item := range list {
		one := rest
		if i < len(each) {
			one = each[i]
		}
		if (one != nil || i < len(each)) && !c.fits(one, item) {
			return false
		}
	}
	return true
}

// members checks those of an object, by their names, by patterns of these, and else by additionalProperties.
func (c *checker) members(s, o map[string]any) bool {
	required := as[[]any](c, s["required"])
	c.spend(len(required)/8 + len(o)/4)
	for _, v := range required {
		name := as[string](c, v)
		if _, has := o[name]; !has {
			return false
		}
		c.spend(len(name) / 256)
	}
	byName, byPattern := as[map[string]any](c, s["properties"]), as[map[string]any](c, s["patternProperties"])
	for name, member := range o {
		c.spend(len(name) / 256)
		schema, known := byName[name]
		if known && !c.fits(schema, member) || s["propertyNames"] != nil && !c.fits(s["propertyNames"], name) {
			return false
		}
		for expression, schema := range byPattern {
			if c.matches(expression, name) {
				if known = true; !c.fits(schema, member) {
					return false
				}
			}
		}
		if rest := s["additionalProperties"]; !known && rest != nil && !c.fits(rest, member) || c.stuck {
			return false
		}
	}
	return true
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// refers follows a reference into the schema itself: "#", or a JSON pointer behind it, as it is written.
func (c *checker) refers(ref, v any) bool {
	if ref == nil {
		return true
	}
	path := as[string](c, ref)
	c.spend(len(path) / 16)
	steps := strings.Split(path, "/")
	c.stuck = c.stuck || steps[0] != "#"
	at := c.root
	for _, step := range steps[1:] {
		in, _ := at.(map[string]any) // a reference into a list is rare, and not followed
		at = in[unescaped.Replace(step)]
	}
	return c.fits(at, v)
}

// combined checks what a schema says by way of others of the same value.
func (c *checker) combined(s map[string]any, v any) bool {
	fits := func(schema any) bool { return c.fits(schema, v) }
	if slices.ContainsFunc(as[[]any](c, s["allOf"]), func(schema any) bool { return !fits(schema) }) {
		return false
	}
	if s["anyOf"] != nil && !slices.ContainsFunc(as[[]any](c, s["anyOf"]), fits) {
		return false
	}
	if s["oneOf"] != nil {
		n := 0
		for _, schema := range as[[]any](c, s["oneOf"]) {
			if fits(schema) {
				n++
			}
		}
		if n != 1 {
			return false
		}
	}
	return s["not"] == nil || !fits(s["not"])
}

package vllmsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// A shape says what an answer looks like, not what it says:
//
//	"int", "number", "string", "bool", "null", "any"   a JSON type; "string|null" either; "=stop" this very text;
//	                                                    "/^chatcmpl-/" a text that matches (alone, without "|")
//	17, true                                            this very value
//	{"a": s, "b?": s}                                   these fields, b perhaps
//	{"*": s}                                            any fields, each of shape s
//	[s]                                                 each element of shape s
//	[s, t, "..."]                                       the first of shape s, all others of shape t
//	[s, t, "."]                                         these elements, and no others
//
// matchShape returns what does not fit. Fields that the shape does not know are only tolerated from a server whose version
// we do not know (loose).
func matchShape(at string, shape, v any, loose bool) []string {
	switch sh := shape.(type) {
	case string:
		return matchWord(at, sh, v)
	case map[string]any:
		return matchObject(at, sh, v, loose)
	case []any:
		return matchArray(at, sh, v, loose)
	}
	if shape != v {
		return []string{fmt.Sprintf("%s is %v, not %v", at, v, shape)}
	}
	return nil
}

func matchWord(at, shape string, v any) []string {
	if len(shape) > 1 && shape[0] == '/' {
		text, ok := v.(string)
		if !ok || !regexp.MustCompile(strings.Trim(shape, "/")).MatchString(text) {
			return []string{fmt.Sprintf("%s is %v, which does not match %s", at, v, shape)}
		}
		return nil
	}
	for word := range strings.SplitSeq(shape, "|") {
		ok := word == "any" || word == kindOf(v)
		switch n, number := v.(float64); {
		case word == "int":
			ok = number && n == math.Trunc(n)
		case strings.HasPrefix(word, "="):
			ok = v == any(word[1:])
		}
		if ok {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %s %v, not %s", at, kindOf(v), brief(v), shape)}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func brief(v any) string {
	b, _ := json.Marshal(v)
	return string(b[:min(len(b), 200)])
}

func matchObject(at string, shape map[string]any, v any, loose bool) (wrong []string) {
	o, ok := v.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %s %v, not an object", at, kindOf(v), brief(v))}
	}
	each, open := shape["*"]
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(shape)) {
		key := strings.TrimSuffix(name, "?")
		seen[key] = true
		got, there := o[key]
		switch {
		case name == "*":
		case there:
			wrong = append(wrong, matchShape(at+"."+key, shape[name], got, loose)...)
		case key == name:
			wrong = append(wrong, at+"."+key+" is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if open && !seen[key] {
			wrong = append(wrong, matchShape(at+"."+key, each, o[key], loose)...)
		} else if !seen[key] && !loose {
			wrong = append(wrong, at+"."+key+" is not in the shape")
		}
	}
	return wrong
}

func matchArray(at string, shape []any, v any, loose bool) (wrong []string) {
	list, ok := v.([]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %s %v, not an array", at, kindOf(v), brief(v))}
	}
	end, _ := shape[len(shape)-1].(string)
	if end == "..." || end == "." {
		shape = shape[:len(shape)-1]
	}
	if end == "." && len(list) != len(shape) || end == "..." && len(list) < len(shape)-1 {
		return []string{fmt.Sprintf("%s has %d elements, the shape %d", at, len(list), len(shape))}
	}
	for i, e := range list {
		wrong = append(wrong, matchShape(fmt.Sprintf("%s[%d]", at, i), shape[min(i, len(shape)-1)], e, loose)...)
	}
	return wrong
}

// claim is a statement about an answer: sums of terms on both sides of a comparison. A term is a number, a 'text', a path
// (choices[0].token_ids), what an earlier step kept ($ids.tokens), or a function of such: len(a), starts(a,b) when array
// or text a starts with b, scored(prompt_logprobs,ids) when every id after the first has its own entry, least(a) and
// most(a) of the fields in each element after the first.
type claim struct {
	root any
	kept map[string]any
}

var comparison = regexp.MustCompile(`^(.*?)\s(==|!=|<=|>=|<|>)\s(.*)$`)

// holds evaluates a claim; an error means that it makes no sense here.
func (c claim) holds(text string) (bool, error) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		v, err := c.sum(text)
		return v == true, err
	}
	a, err := c.sum(m[1])
	if err != nil {
		return false, err
	}
	b, err := c.sum(m[3])
	if err != nil {
		return false, err
	}
	x, xn := a.(float64)
	y, yn := b.(float64)
	switch op := m[2]; {
	case op == "==":
		return canonical(a) == canonical(b), nil
	case op == "!=":
		return canonical(a) != canonical(b), nil
	case !xn || !yn:
		return false, fmt.Errorf("%s compares %v with %v", text, brief(a), brief(b))
	case op == "<":
		return x < y, nil
	case op == "<=":
		return x <= y, nil
	case op == ">":
		return x > y, nil
	}
	return x >= y, nil
}

func canonical(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (c claim) sum(text string) (any, error) {
	terms := strings.Split(text, " + ")
	total, err := c.term(strings.TrimSpace(terms[0]))
	for _, t := range terms[1:] {
		v, e := c.term(strings.TrimSpace(t))
		x, ok1 := total.(float64)
		y, ok2 := v.(float64)
		if e != nil || !ok1 || !ok2 {
			return nil, fmt.Errorf("%s: %w", text, errors.Join(err, e, errors.New("only numbers can be added")))
		}
		total = x + y
	}
	return total, err
}

var function = regexp.MustCompile(`^(\w+)\((.*)\)$`)

func (c claim) term(text string) (any, error) {
	if m := function.FindStringSubmatch(text); m != nil {
		var args []any
		for part := range strings.SplitSeq(m[2], ",") {
			v, err := c.term(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			args = append(args, v)
		}
		return apply(m[1], args)
	}
	if strings.HasPrefix(text, "'") {
		return strings.Trim(text, "'"), nil
	}
	var literal any
	if json.Unmarshal([]byte(text), &literal) == nil {
		return literal, nil
	}
	root := c.root
	if rest, ok := strings.CutPrefix(text, "$"); ok {
		name := strings.FieldsFunc(rest, func(r rune) bool { return r == '.' || r == '[' })[0]
		kept, there := c.kept[name]
		if !there {
			return nil, fmt.Errorf("nothing was kept as %s", name)
		}
		root, text = kept, rest[len(name):]
	}
	return lookup(root, text)
}

var pathStep = regexp.MustCompile(`[^.\[\]]+`)

// lookup goes down a path.
func lookup(v any, path string) (any, error) {
	for _, key := range pathStep.FindAllString(path, -1) {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return nil, fmt.Errorf("%s: there is no %s", path, key)
			}
			v = next
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i+len(at) < 0 || i >= len(at) {
				return nil, fmt.Errorf("%s: there is no element %s of %d", path, key, len(at))
			}
			if i < 0 {
				i += len(at)
			}
			v = at[i]
		default:
			return nil, fmt.Errorf("%s: %s of %s", path, key, kindOf(v))
		}
	}
	return v, nil
}

func apply(name string, args []any) (any, error) {
	list, _ := args[0].([]any)
	switch name {
	case "len":
		switch v := args[0].(type) {
		case string:
			return float64(len(v)), nil
		case map[string]any:
			return float64(len(v)), nil
		}
		return float64(len(list)), nil
	case "starts":
		if text, ok := args[0].(string); ok {
			part, _ := args[1].(string)
			return strings.HasPrefix(text, part), nil
		}
		part, _ := args[1].([]any)
		return len(part) <= len(list) && canonical(list[:len(part)]) == canonical(part), nil
	case "scored":
		ids, _ := args[1].([]any)
		return scored(list, ids), nil
	case "least", "most":
		n := -1.0
		for _, e := range list[1:] {
			o, _ := e.(map[string]any)
			if k := float64(len(o)); n < 0 || name == "least" && k < n || name == "most" && k > n {
				n = k
			}
		}
		return n, nil
	}
	return nil, fmt.Errorf("unknown function %s", name)
}

// scored reports whether prompt logprobs hold an entry with a rank for every id but the first.
func scored(list, ids []any) bool {
	if len(list) != len(ids) || len(list) == 0 || list[0] != nil {
		return false
	}
	for i := 1; i < len(ids); i++ {
		own, err := lookup(list[i], fmt.Sprint(ids[i]))
		if err != nil {
			return false
		}
		rank, err := lookup(own, "rank")
		if n, ok := rank.(float64); err != nil || !ok || n < 1 {
			return false
		}
	}
	return true
}

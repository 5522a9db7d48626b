package yamlfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/foregate/foregate/internal/words"
)

// Value is one value of a file and the path of its field. A value that is not given, or that was refused
// already, reads as nothing: what it is read into stays as it is.
type Value struct {
	file *File
	node *yaml.Node // nil when it is not given
	path string
	bad  bool // and told
}

// value is the value of field path, if it is a plain node.
func (f *File) value(path string, n *yaml.Node) Value {
	v := Value{file: f, node: n, path: path, bad: true}
	switch {
	case !f.Sound(path): // it was told
	case anchored(n):
		v.Fail("anchors and aliases are not read; write the value out, or put text that begins with * or & in quotes")
	case n.Style&yaml.TaggedStyle != 0:
		v.Fail("tags (!name) are not read; remove it")
	case kindOf(n) == null:
		v.Fail("has no value; give one or remove the field")
	default:
		v.bad = false
	}
	return v
}

// IsSet tells whether the field is in the file, well or badly.
func (v Value) IsSet() bool { return v.node != nil }

// Fail notes what is wrong with this value.
func (v Value) Fail(format string, args ...any) { v.file.Fail(v.path, format, args...) }

// reads tells whether there is something to read.
func (v Value) reads() bool { return v.node != nil && !v.bad }

// IsScalar tells whether the value is neither fields nor a list.
func (v Value) IsScalar() bool { return v.reads() && isScalar(v.node) }

// IsFields tells whether the value is a mapping.
func (v Value) IsFields() bool { return v.reads() && kindOf(v.node) == fields }

// IsList tells whether the value is a list.
func (v Value) IsList() bool { return v.reads() && kindOf(v.node) == list }

// Sound tells whether nothing was found wrong with the value so far.
func (v Value) Sound() bool { return v.file.Sound(v.path) }

// Fields is a mapping whose fields are asked for one by one; [Fields.Done] tells of those that nobody
// asked for.
type Fields struct {
	Value
	entries    map[string]*yaml.Node
	names      []string // as they stand in the file
	validNames []string // as they were asked for
}

// Fields opens a mapping. It always returns one; that of something else is without fields and misses none.
func (v Value) Fields() *Fields {
	b := &Fields{Value: v}
	if !v.reads() {
		return b
	}
	if kindOf(v.node) != fields {
		v.Fail("want fields (name: value), got %s", kindOf(v.node))
		return b
	}
	b.entries = map[string]*yaml.Node{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, val := v.node.Content[i], v.node.Content[i+1]
		if !isScalar(key) || !SafeName(key.Value) || anchored(key) {
			// Not shown: a URL in the wrong place may carry a password.
			v.file.add(placeOf(key), v.path, "something here is not a field's name (1–64 of A-Z a-z 0-9 . _ -)")
			continue
		}
		at := b.pathOf(key.Value)
		if b.entries[key.Value] != nil {
			v.file.add(placeOf(key), "", fmt.Sprintf("%s: is already given in line %d; remove one", at, v.file.places[at].line))
			continue
		}
		v.file.places[at] = placeOf(key)
		b.entries[key.Value] = val
		b.names = append(b.names, key.Value)
	}
	return b
}

// pathOf is the path of a field of the mapping.
func (f *Fields) pathOf(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "." + name
}

// Opened tells whether there was a mapping to open.
func (f *Fields) Opened() bool { return f.entries != nil }

// Names are the fields' names in the order of the file, for mappings whose names are free.
func (f *Fields) Names() []string { return f.names }

// At returns a field that may be given.
func (f *Fields) At(name string) Value {
	if !slices.Contains(f.validNames, name) {
		f.validNames = append(f.validNames, name)
	}
	n, ok := f.entries[name]
	if !ok {
		return Value{file: f.file, path: f.pathOf(name)}
	}
	return f.file.value(f.pathOf(name), n)
}

// Done notes the fields that nobody asked for.
func (f *Fields) Done() {
	for _, name := range f.names {
		if !slices.Contains(f.validNames, name) {
			f.file.Fail(f.pathOf(name), "unknown field; known here: %s", strings.Join(slices.Sorted(slices.Values(f.validNames)), ", "))
		}
	}
}

// Items are the members of a list; none if it is not one.
func (v Value) Items() []Value {
	if !v.reads() {
		return nil
	}
	if kindOf(v.node) != list {
		v.Fail("want a list ([a, b] or lines with -), got %s", kindOf(v.node))
		return nil
	}
	var all []Value
	for i, n := range v.node.Content {
		at := fmt.Sprintf("%s[%d]", v.path, i)
		v.file.places[at] = placeOf(n)
		all = append(all, v.file.value(at, n))
	}
	return all
}

// SafeName tells whether s may be a name: short, and fit for a label, a log
// line and a Redis key.
func SafeName(s string) bool { return words.IsName(s, 64, "._-") }

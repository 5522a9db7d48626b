package openai

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Merger puts the chunks of a stream together into the answer that the engine would have given in one piece, with all that
// it tells. The zero value of its bound allows nothing.
type Merger struct {
	root merged
	left int // bytes that it may still keep
}

// NewMerger returns a merger of an answer of at most so many bytes.
func NewMerger(maxBytes int) *Merger { return &Merger{left: maxBytes} }

// merged is a value that grows from chunk to chunk: an object's or a list's parts, else its JSON.
type merged struct {
	kind   byte // '{' and '[' have parts or elements, '"' a text, '0' anything else; 0: nothing but null has come
	raw    []byte
	object map[string]*merged
	list   []*merged
}

// nodeSize is the memory of a part besides its content, in bytes.
const nodeSize = 96

// nested are the members whose parts are merged; of others the last value counts.
var nested = []string{"choices", "delta", "logprobs", "tool_calls", "function"}

// grown are the members whose texts are joined.
var grown = []string{"content", "text", "reasoning", asReasoningContent, "refusal", "arguments"}

// steady are the members of choices and calls that chunks may repeat, but not change: another id is that of another call.
var steady = []string{"id", "name", "finish_reason"}

// Add adds a chunk, valid JSON. The error is [ErrTooLong], or says that a chunk is none.
func (m *Merger) Add(chunk []byte) error { return m.add(&m.root, "choices", bytes.TrimSpace(chunk)) }

// Whole returns the answer.
func (m *Merger) Whole() []byte { return m.root.append(nil, "") }

// spend counts bytes that are kept.
func (m *Merger) spend(n int) error {
	if m.left -= n; m.left < 0 {
		return ErrTooLong
	}
	return nil
}

// add merges a value into that of a member, or of a list's element that has no name.
func (m *Merger) add(to *merged, name string, raw []byte) error {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	kind := raw[0]
	if kind != '[' && kind != '"' && (kind != '{' || name != "" && !slices.Contains(nested, name)) {
		kind = '0'
	}
	if kind != to.kind {
		if to.kind != 0 && (slices.Contains(nested, name) || slices.Contains(grown, name)) {
			return fmt.Errorf("%s of another form: %w", name, errNotChunk) // what came before would be lost
		}
		*to = merged{kind: kind}
	}
	empty := string(raw) == `""` || len(to.raw) <= len(`""`)
	if kind == '"' && slices.Contains(steady, name) && !empty && !bytes.Equal(raw, to.raw) {
		return fmt.Errorf("another %s: %w", name, errNotChunk)
	}
	switch {
	case kind == '{':
		return m.addObject(to, raw)
	case kind == '[':
		return m.addList(to, name, raw)
	case kind == '"' && len(to.raw) > 0 && slices.Contains(grown, name):
		to.raw = append(append(to.raw[:len(to.raw)-1], raw[1:len(raw)-1]...), '"')
		m.left += len(`""`)
	case kind == '0' || len(to.raw) == 0 || string(raw) != `""`:
		m.left += len(to.raw) // it takes the place of another
		to.raw = append(to.raw[:0], raw...)
	}
	return m.spend(len(raw))
}

func (m *Merger) addObject(to *merged, raw []byte) error {
	members, ok := Members(raw)
	if !ok {
		return errNotChunk
	}
	if to.object == nil {
		to.object = map[string]*merged{}
	}
	for key, value := range members {
		if to.object[key] == nil {
			to.object[key] = &merged{}
			m.left -= nodeSize + len(key)
		}
		named := key
		if to == &m.root && key == "id" {
			named = "" // SGLang gives each choice an id of its own
		}
		if err := m.add(to.object[key], named, value); err != nil {
			return err
		}
	}
	return m.spend(0)
}

// addList merges the elements of choices and calls by their indexes, and appends those of other lists.
func (m *Merger) addList(to *merged, name string, raw []byte) error {
	elements, ok := Elements(raw)
	if !ok {
		return errNotChunk
	}
	for _, value := range elements {
		if !slices.Contains(nested, name) {
			to.list = append(to.list, &merged{kind: '0', raw: bytes.Clone(value)})
			m.left -= nodeSize + len(value)
			continue
		}
		at := indexOf(value, len(to.list))
		for len(to.list) <= at {
			if err := m.spend(nodeSize); err != nil {
				return err
			}
			to.list = append(to.list, &merged{})
		}
		if err := m.add(to.list[at], "", value); err != nil {
			return err
		}
	}
	return m.spend(0)
}

// indexOf returns the index that an element tells; without a possible one the given.
func indexOf(element []byte, otherwise int) int {
	members, _ := Members(element)
	if n, err := strconv.ParseUint(string(members["index"]), 10, 16); err == nil && n < maxChoices {
		return int(n)
	}
	return otherwise
}

// append appends the value of a member as it is in an answer in one piece.
func (m *merged) append(dst []byte, name string) []byte {
	switch m.kind {
	case 0:
		return append(dst, "null"...)
	case '[':
		dst = append(dst, '[')
		for _, p := range m.list {
			dst = append(p.append(dst, name), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte{','}), ']')
	case '{':
	default:
		return append(dst, m.raw...)
	}
	dst = append(dst, '{')
	if name == "delta" { // not each engine says these of an answer that begins with half a character, or is empty
		dst = m.appendUnless(dst, `"role":"assistant",`, "role")
		dst = m.appendUnless(dst, `"content":"",`, "content", "tool_calls")
	}
	for _, key := range slices.Sorted(maps.Keys(m.object)) {
		p, named := m.object[key], key
		switch {
		case key == "index" && name == "tool_calls", p.kind == 0 && name == "delta" && (key == "role" || !m.has("tool_calls")):
			continue
		case key == "delta":
			named = "message"
		case key == "object":
			p.raw = bytes.Replace(p.raw, []byte(".chunk"), nil, 1)
		}
		dst = append(AppendQuote(dst, named), ':')
		dst = append(p.append(dst, key), ',')
	}
	return append(bytes.TrimSuffix(dst, []byte{','}), '}')
}

// has reports whether a member has a value other than null.
func (m *merged) has(name string) bool { return m.object[name] != nil && m.object[name].kind != 0 }

// appendUnless appends members unless one of these has a value.
func (m *merged) appendUnless(dst []byte, members string, names ...string) []byte {
	if slices.ContainsFunc(names, m.has) {
		return dst
	}
	return append(dst, members...)
}

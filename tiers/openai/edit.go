package openai

import (
	"bytes"
	"slices"
	"strconv"
)

// Edit sets a top-level field to a raw JSON value, or deletes it if the value is nil.
type Edit struct {
	Name  string
	Value []byte
}

// Set sets a field to a JSON value.
func Set(name, value string) Edit { return Edit{name, []byte(value)} }

// Drop deletes a field.
func Drop(name string) Edit { return Edit{Name: name} }

// SetText sets a field to a text.
func SetText[T ~[]byte | ~string](name string, text T) Edit {
	return Edit{name, Quote(text)}
}

// SetInt sets a field to a whole number.
func SetInt(name string, n int64) Edit { return Edit{name, strconv.AppendInt(nil, n, 10)} }

// SetIDs sets a field to a list of ids: several lists, one after the other.
func SetIDs(name string, lists ...[]int32) Edit {
	b := []byte{'['}
	for _, list := range lists {
		for _, id := range list {
			b = append(strconv.AppendInt(b, int64(id), 10), ',')
		}
	}
	return Edit{name, append(bytes.TrimSuffix(b, []byte{','}), ']')}
}

// Object appends an object with these members, but for those without a value.
func Object(dst []byte, members ...Edit) []byte {
	dst = append(dst, '{')
	for _, m := range members {
		if m.Value != nil {
			dst = append(append(append(AppendQuote(dst, m.Name), ':'), m.Value...), ',')
		}
	}
	return append(bytes.TrimSuffix(dst, []byte{','}), '}')
}

// Apply appends the body to dst with the edits, and without the stripped fields and the refused ones that
// have no effect. Everything else, above all the messages, is copied byte for byte. If edits name a field
// twice, the last value counts.
func (r *Request) Apply(dst []byte, edits ...Edit) []byte {
	dst = slices.Grow(dst, len(r.Body)+256)
	between := byte('{')
	for i := range r.members {
		m := &r.members[i]
		if m.drop || edited(edits, m.name) {
			continue
		}
		dst = append(append(dst, between), m.whole.Of(r.Body)...)
		between = ','
	}
	for i, e := range edits {
		if e.Value == nil || edited(edits[i+1:], e.Name) {
			continue
		}
		dst = append(AppendQuote(append(dst, between), e.Name), ':')
		dst = append(dst, e.Value...)
		between = ','
	}
	if between == '{' {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

func edited(edits []Edit, name string) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Name == name })
}

// AppendDrops appends an edit that deletes each forwarded field whose name is not kept.
func (r *Request) AppendDrops(edits []Edit, kept func(name string) bool) []Edit {
	for i := range r.members {
		if m := &r.members[i]; !m.drop && !kept(m.name) {
			edits = append(edits, Edit{Name: m.name})
		}
	}
	return edits
}

// KwargsWithoutThinking returns the request's arguments of the chat template with those that turn thinking off in
// place of its own.
func (r *Request) KwargsWithoutThinking() []byte {
	var members []Edit
	if kwargs := r.Sent(Kwargs); len(kwargs) > 0 && kwargs[0] == '{' {
		eachMember(kwargs, func(name, value []byte) {
			if key := string(name); key != "enable_thinking" && key != "thinking" {
				members = append(members, Edit{key, value})
			}
		})
	}
	return Object(nil, append(members, Set("enable_thinking", "false"))...)
}

// onlyTurnsThinkingOff reports whether arguments of the chat template say no more than that nobody is to think before the
// answer: a draft does not, so it may answer.
func (r *Request) onlyTurnsThinkingOff(v Span) bool {
	members, isObject := Members(v.Of(r.Body))
	for key, raw := range members {
		if key != "enable_thinking" && key != "thinking" || string(raw) != "false" {
			return false
		}
	}
	return isObject
}

// Extended returns the messages array plus an assistant message with this text: the request for a
// continuation by text.
func (r *Request) Extended(text []byte) []byte {
	inside := r.Raw("messages")
	if len(inside) == 0 {
		return nil
	}
	out := make([]byte, 0, len(inside)+len(text)+64)
	out = append(out, inside[:len(inside)-1]...)
	out = append(out, `,{"role":"assistant","content":`...)
	out = AppendQuote(out, text)
	return append(out, "}]"...)
}

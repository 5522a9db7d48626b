package openai

import "slices"

// Edit sets a top-level field to a raw JSON value, or deletes it if the value is nil.
type Edit struct {
	Name  string
	Value []byte
}

// Apply appends the body to dst with the edits, and without the stripped fields and the refused ones that
// have no effect. Everything else, above all the messages, is copied byte for byte. If edits name a field
// twice, the last value counts.
func (r *Request) Apply(dst []byte, edits ...Edit) []byte {
	dst = append(dst, '{')
	first := true
	sep := func() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
	}
	for _, m := range r.members {
		if m.drop || edited(edits, m.name) {
			continue
		}
		sep()
		dst = append(dst, m.whole.Of(r.Body)...)
	}
	for i, e := range edits {
		if e.Value == nil || edited(edits[i+1:], e.Name) {
			continue
		}
		sep()
		dst = quote(dst, e.Name)
		dst = append(dst, ':')
		dst = append(dst, e.Value...)
	}
	return append(dst, '}')
}

func edited(edits []Edit, name string) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Name == name })
}

// Extended returns the messages array plus an assistant message with this text: the request for a
// continuation by text.
func (r *Request) Extended(text []byte) []byte {
	inside := r.messages.Of(r.Body)
	out := make([]byte, 0, len(inside)+len(text)+64)
	out = append(out, inside[:len(inside)-1]...)
	out = append(out, `,{"role":"assistant","content":`...)
	out = quote(out, text)
	return append(out, "}]"...)
}

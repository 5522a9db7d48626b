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
	p := Pieces{own: dst, n: maxCuts} // no member is large
	r.splice(&p, edits)
	return p.own
}

func (r *Request) splice(p *Pieces, edits []Edit) {
	between := byte('{')
	for i := range r.members {
		m := &r.members[i]
		if m.drop || edited(edits, m.name) {
			continue
		}
		p.own = append(p.own, between)
		p.add(m.whole.Of(r.Body))
		between = ','
	}
	for i, e := range edits {
		if e.Value == nil || edited(edits[i+1:], e.Name) {
			continue
		}
		p.own = append(quote(append(p.own, between), e.Name), ':')
		p.own = append(p.own, e.Value...)
		between = ','
	}
	if between == '{' {
		p.own = append(p.own, '{')
	}
	p.own = append(p.own, '}')
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

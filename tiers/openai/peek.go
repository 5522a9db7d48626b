package openai

import (
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/fields"
)

// Envelope is everything that the gateway needs of a forwarded request.
type Envelope struct {
	Name string // the model asked for

	body    []byte
	model   Span // position of its value, quotes included
	members []member
	drops   bool // some member must not be forwarded
	own     bool // some member is the gateway's own to serve
	need    Need
}

// Own reports whether a member is one of [Limits.Own]: no engine may get it.
func (e Envelope) Own() bool { return e.own }

// Bytes is the length of the body.
func (e Envelope) Bytes() int { return len(e.body) }

// Peek reads the model of a JSON request to a path strictly and checks the rest like [Scan]: fields that
// control an engine are removed. What is refused in a generation request is refused here, too, including
// anything that a backend would fetch, because it could be an address inside the cluster. The error is always
// a *RequestError.
func Peek(path string, body []byte, lim Limits) (Envelope, error) {
	c := borrowCursor(body)
	defer c.release()
	c.maxDepth = lim.Depth
	w := walker{cur: c, body: body, lim: lim}
	env := Envelope{body: body}
	for w.members(len(env.members)) {
		env.read(&w, path)
	}
	if w.ended(env.Name != ""); c.err == nil {
		w.allowed(env.Name)
		env.needAt(&w, path)
	}
	if err := w.failed(); err != nil {
		return Envelope{}, err
	}
	return env, nil
}

// read reads one top-level member.
func (e *Envelope) read(w *walker, path string) {
	quoted, at := w.cur.value()
	if w.cur.err != nil {
		return
	}
	m := member{name: string(plainName(quoted))}
	switch kind := w.cur.kind(); {
	case m.name == "model" && kind != '"' && kind != 0:
		w.cur.fail(wrongType(m.name, "a string", kind))
	case m.name == "model":
		var raw []byte
		if raw, m.value = w.cur.value(); w.cur.err == nil {
			e.Name, e.model = string(unquote(nil, raw)), m.value
		}
	case strings.EqualFold(m.name, "model"):
		w.bad(clip(m.name, maxName), "duplicate_key", "The field %q must be written \"model\".", clip(m.name, maxName))
	default:
		rule, own := fields.LookupIn(path, m.name), slices.Contains(w.lim.Own, m.name)
		if own {
			rule = fields.Field{}
		}
		m.drop, m.value = w.field(m.name, rule)
		e.own = e.own || own && string(m.value.Of(w.body)) != "null"
	}
	m.whole = Span{at.Start, m.value.End}
	e.members = append(e.members, m)
	e.drops = e.drops || m.drop
}

// Apply appends the body with another model name and further edits. All other bytes are copied, except for
// removed or added members.
func (e Envelope) Apply(dst []byte, model string, more ...Edit) []byte {
	if !e.drops && len(more) == 0 {
		dst = append(dst, e.body[:e.model.Start]...)
		dst = quote(dst, model)
		return append(dst, e.body[e.model.End:]...)
	}
	r := Request{Body: e.body, members: e.members}
	return r.Apply(dst, append(more, Edit{"model", Quote(model)})...)
}

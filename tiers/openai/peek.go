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
	env, err := peek(c, path, body, lim)
	if err != nil {
		return Envelope{}, depthFirst(err, body, lim)
	}
	return env, nil
}

func peek(c *cursor, path string, body []byte, lim Limits) (Envelope, *RequestError) {
	env := Envelope{body: body}
	w := walker{cur: c, body: body, lim: lim}
	if !c.enter('{') && c.err == nil && c.kind() != 0 {
		return Envelope{}, badField("", "invalid_json", "The request body must be a JSON object.")
	}
	for c.more() {
		if len(env.members) == lim.Fields {
			return Envelope{}, badField("", "too_many_fields", "The request has more than %d fields.", lim.Fields)
		}
		if err := env.read(&w, path); err != nil {
			return Envelope{}, err
		}
	}
	if c.end(); c.err != nil {
		return Envelope{}, syntaxError(body, c.err)
	}
	if env.Name == "" {
		return Envelope{}, badField("model", "missing_required_parameter", "You must provide a model.")
	}
	if err := w.allowed(env.Name); err != nil {
		return Envelope{}, err
	}
	if err := env.needAt(path, lim); err != nil {
		return Envelope{}, err
	}
	return env, nil
}

// read reads one top-level member.
func (e *Envelope) read(w *walker, path string) *RequestError {
	quoted, at := w.cur.value()
	if w.cur.err != nil {
		return nil // the caller reports it
	}
	m := member{name: string(plainName(quoted))}
	switch kind := w.cur.kind(); {
	case m.name == "model" && kind != '"' && kind != 0:
		return wrongType(m.name, "a string", kind)
	case m.name == "model":
		var raw []byte
		if raw, m.value = w.cur.value(); w.cur.err == nil {
			e.Name, e.model = string(unquote(nil, raw)), m.value
		}
	case strings.EqualFold(m.name, "model"):
		return badField(clip(m.name, maxName), "duplicate_key", "The field %q must be written \"model\".", clip(m.name, maxName))
	default:
		rule, own := fields.LookupIn(path, m.name), slices.Contains(w.lim.Own, m.name)
		if own {
			rule = fields.Field{}
		}
		var err *RequestError
		if m.drop, m.value, err = w.field(m.name, rule); err != nil {
			return err
		}
		e.own = e.own || own && string(w.body[m.value.Start:m.value.End]) != "null"
	}
	m.whole = Span{at.Start, m.value.End}
	e.members = append(e.members, m)
	e.drops = e.drops || m.drop
	return nil
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

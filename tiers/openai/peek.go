package openai

import (
	"bytes"
	"strings"
)

// Envelope is all that the gateway needs of a request it passes through.
type Envelope struct {
	Name string // the model asked for

	body    []byte
	model   Span // where its value stands, quotes included
	members []member
	drops   bool // some member is not to be forwarded
}

// Peek reads the model of a JSON request strictly and validates the rest. What
// steers an engine is stripped, what is refused of a generation request is refused
// here too, and so is a string that a backend would take for a URL to fetch,
// because it could name an address inside the cluster. The error is always a
// *RequestError.
func Peek(body []byte, lim Limits) (Envelope, error) {
	if at := depthOffset(body, lim.Depth); at >= 0 {
		return Envelope{}, badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", lim.Depth, at)
	}
	c := borrowCursor(body)
	defer c.release()
	env := Envelope{body: body}
	if !c.enter('{') && c.err == nil && c.kind() != 0 {
		return Envelope{}, badField("", "invalid_json", "The request body must be a JSON object.")
	}
	for c.more() {
		if len(env.members) == lim.Fields {
			return Envelope{}, badField("", "too_many_fields", "The request has more than %d fields.", lim.Fields)
		}
		if err := env.read(c, lim); err != nil {
			return Envelope{}, err
		}
	}
	if c.end(); c.err != nil {
		return Envelope{}, syntaxError(body, c.err)
	}
	if env.Name == "" {
		return Envelope{}, badField("model", "missing_required_parameter", "You must provide a model.")
	}
	return env, nil
}

// read reads one top-level member.
func (e *Envelope) read(c *cursor, lim Limits) *RequestError {
	quoted, at := c.value()
	if c.err != nil {
		return nil // told by the caller
	}
	name := string(plainName(quoted))
	m := member{name: name, drop: stripped(name)}
	switch kind := c.kind(); {
	case name == "model" && kind != '"' && kind != 0:
		return wrongType(name, "a string", kind)
	case name == "model":
		raw, at := c.value()
		if c.err == nil {
			e.Name, e.model = string(unquote(nil, raw)), at
		}
	case strings.EqualFold(name, "model"):
		return badField(clip(name, 64), "duplicate_key", "The field %q must be written \"model\".", clip(name, 64))
	case refusedByDefault(name):
		s := scanner{cur: c, lim: lim}
		if _, err := refused(&s, name); err != nil {
			return err
		}
		m.drop = s.drop
	default:
		if err := c.refuseURLs(name); err != nil {
			return err
		}
	}
	m.whole = Span{at.Start, int(c.dec.InputOffset())}
	m.value = behindColon(e.body, Span{at.End, m.whole.End})
	e.members = append(e.members, m)
	e.drops = e.drops || m.drop
	return nil
}

// Apply appends the body with the model's name replaced, and with further edits. Every other
// byte stays as it was, unless a member had to go or come.
func (e Envelope) Apply(dst []byte, model string, more ...Edit) []byte {
	if !e.drops && len(more) == 0 {
		dst = append(dst, e.body[:e.model.Start]...)
		dst = quote(dst, model)
		return append(dst, e.body[e.model.End:]...)
	}
	r := Request{Body: e.body, members: e.members}
	return r.Apply(dst, append(more, Edit{"model", Quote(model)})...)
}

// refuseURLs passes over the value of a top-level field and refuses a URL under
// a name such as url, image_url or file_url at any depth. Inline data (data:…)
// is no address.
func (c *cursor) refuseURLs(field string) *RequestError {
	top := c.dec.StackDepth()
	fetched := namesURL(field)
	for {
		tok, err := c.dec.ReadToken()
		if c.fail(err); c.err != nil {
			return nil // the caller sees the syntax error
		}
		if tok.Kind() == '"' {
			kind, length := c.dec.StackIndex(c.dec.StackDepth())
			switch name := kind == '{' && length%2 == 1 && c.dec.StackDepth() > top; {
			case name:
				fetched = namesURL(tok.String())
			case fetched && strings.Contains(tok.String(), "://"):
				return badField(field, "unsupported_parameter", "A URL to be fetched (at %s) is not accepted by this gateway.", clip(string(c.dec.StackPointer()), 100))
			}
		}
		if c.dec.StackDepth() == top {
			return nil
		}
	}
}

func namesURL(name string) bool {
	return name == "url" || strings.HasSuffix(name, "_url")
}

// only reports whether every element of a JSON array is of one kind.
func only(raw []byte, kind byte) bool {
	var in cursor
	in.reset(raw)
	for range in.array() {
		if byte(in.kind()) != kind {
			return false
		}
		in.skip()
	}
	return bytes.HasPrefix(raw, []byte{'['})
}

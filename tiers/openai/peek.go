package openai

import (
	"bytes"
	"strings"
)

// Envelope is all that the gateway needs of a request it passes through.
type Envelope struct {
	Name  string // the model asked for
	Model Span   // where its value stands, quotes included
}

// Peek reads the model of a JSON request strictly and validates the rest. A
// string that a backend would take for a URL to fetch is refused, because it
// could name an address inside the cluster. The error is always a *RequestError.
func Peek(body []byte) (Envelope, error) {
	const depth = 64
	if at := depthOffset(body, depth); at >= 0 {
		return Envelope{}, badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", depth, at)
	}
	var c cursor
	var env Envelope
	c.reset(body)
	for field := range c.object() {
		name := string(field)
		switch {
		case name == "model":
			if kind := c.kind(); kind != '"' && kind != 0 {
				return Envelope{}, wrongType(name, "a string", kind)
			}
			raw, at := c.value()
			if c.err == nil {
				env = Envelope{Name: string(unquote(nil, raw)), Model: at}
			}
		case strings.EqualFold(name, "model"):
			return Envelope{}, badField(clip(name, 64), "duplicate_key", "The field %q must be written \"model\".", clip(name, 64))
		default:
			if err := c.refuseURLs(name); err != nil {
				return Envelope{}, err
			}
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

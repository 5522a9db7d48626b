package openai

import (
	"net/http"
)

// Envelope is all that the gateway needs of a request it passes through.
type Envelope struct {
	Name  string // the model asked for
	Model Span   // where its value stands, quotes included
}

// Peek reads the model of a JSON request strictly and validates the rest. The
// error is always a *RequestError.
func Peek(body []byte) (Envelope, error) {
	const depth = 64
	if at := depthOffset(body, depth); at >= 0 {
		return Envelope{}, badField("", "too_deep", "The request body nests deeper than %d levels at byte %d.", depth, at)
	}
	var c cursor
	var env Envelope
	c.reset(body)
	for ok := c.open('{'); ok && c.more(); {
		quoted, _ := c.name()
		if c.err != nil {
			break
		}
		model := string(plainName(quoted)) == "model"
		kind := c.kind()
		raw, at := c.value()
		if !model || c.err != nil {
			continue
		}
		if kind != '"' {
			return Envelope{}, wrongType("model", "a string", kind)
		}
		env = Envelope{Name: string(unquote(nil, raw)), Model: at}
	}
	if c.end(); c.err != nil {
		return Envelope{}, syntaxError(body, c.err)
	}
	if env.Name == "" {
		return Envelope{}, &RequestError{Status: http.StatusBadRequest, Param: "model", Code: "missing_required_parameter", Message: "You must provide a model."}
	}
	return env, nil
}

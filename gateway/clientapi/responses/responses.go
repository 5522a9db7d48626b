// Package responses is the Responses API: its requests as chat completions, and chat completions as its answers.
// Start at [API].
package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// API is the Responses API.
type API struct{}

var _ clientapi.API = API{}

// object is a JSON object. Its names are compared exactly.
type object map[string]json.RawMessage

// ErrorBody implements [clientapi.API].
func (API) ErrorBody(dst []byte, _ int, e openai.ErrorBody, _ string) []byte { return e.Append(dst) }

// Translate implements [clientapi.API].
func (API) Translate(body []byte) (*clientapi.Request, error) {
	in, err := parse(body)
	if err != nil {
		return nil, err
	}
	t := translator{in: in, chat: map[string]any{}}
	if err := t.run(); err != nil {
		return nil, err
	}
	out := &clientapi.Request{Stream: t.stream, EngineOnly: t.engineOnly, Param: ownName}
	if t.engineOnly != "" {
		return out, nil
	}
	if out.Chat, err = encode(t.chat); err != nil {
		return nil, err
	}
	echo := object{} // without the input, which may be large
	for name := range defaults {
		if v := in[name]; !null(v) {
			echo[name] = v
			out.Kept += len(v)
		}
	}
	out.NewEncoder = func(id string) clientapi.Encoder { return &encoder{id: id, echo: echo} }
	return out, nil
}

// parse reads the object of a body that [openai.Peek] has read: it is valid JSON, without a name that comes twice.
func parse(body []byte) (object, error) {
	var in object
	if err := json.Unmarshal(body, &in); err != nil || in == nil {
		return nil, bad("", "invalid_type", "The request body must be an object.")
	}
	return in, nil
}

func clip(s string) string { return fmt.Sprintf("%.64s", s) }

func bad(param, code, format string, args ...any) error {
	return &openai.RequestError{Status: http.StatusBadRequest, Param: param, Code: code, Message: fmt.Sprintf(format, args...)}
}

// encode writes v without escapes for HTML; the members of maps are sorted.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// ownName is the API's name of a field of the chat completion. The places of items differ: they lose their index.
func ownName(chat string) string {
	switch {
	case strings.HasPrefix(chat, "messages"):
		return "input"
	case chat == "max_tokens":
		return "max_output_tokens"
	case chat == "response_format":
		return "text.format"
	case chat == "reasoning_effort":
		return "reasoning.effort"
	case chat == "verbosity":
		return "text.verbosity"
	}
	return chat
}

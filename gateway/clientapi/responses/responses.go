// Package responses is the Responses API: its requests as chat completions, and chat completions as its answers.
// Start at [API].
package responses

import (
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// API is the Responses API.
type API struct {
	State State // nil keeps nothing
}

var _ clientapi.API = API{}

// ErrorBody implements [clientapi.API].
func (API) ErrorBody(dst []byte, _ int, e openai.ErrorBody, _ string) []byte { return e.Append(dst) }

// NewEncoder implements [clientapi.API].
func (API) NewEncoder(id string) clientapi.Encoder { return newEncoder(id, form{}, 0) }

// Translate implements [clientapi.API].
func (a API) Translate(body []byte) (*clientapi.Request, error) {
	t := translator{Chat: clientapi.NewChat(body), form: form{names: map[string]toolName{}, state: a.State}}
	t.run()
	r := t.Request()
	if r == nil {
		return nil, t.In.Err()
	}
	form := t.form
	form.echo = echoOf(t.In)
	r.Kept, r.Param, r.Stored = cap(form.echo)+t.copied, ownName, t.store
	r.NewEncoder = func(id string, maxBytes int64) clientapi.Encoder {
		if form.store {
			id = form.state.Name(id)
		}
		return newEncoder(id, form, maxBytes)
	}
	return r, nil
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

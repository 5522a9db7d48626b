// Package responses is the Responses API: its requests as chat completions, and chat completions as its answers.
// Start at [API].
package responses

import (
	"bytes"
	"encoding/json"
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
	in := clientapi.ReadObject(body)
	t := translator{in: in, chat: map[string]any{}, form: form{names: map[string]toolName{}, state: a.State}}
	if t.run(); in.Err() != nil {
		return nil, in.Err()
	}
	form := t.form
	form.echo = echoOf(in)
	return &clientapi.Request{
		Chat: encode(t.chat), Kept: cap(form.echo) + t.copied, Stream: t.stream, Param: ownName, Dropped: t.dropped, Thinking: t.thinking, Stored: t.store,
		NewEncoder: func(id string, maxBytes int64) clientapi.Encoder {
			if form.store {
				id = form.state.Name(id)
			}
			return newEncoder(id, form, maxBytes)
		},
	}, nil
}

// encode writes what JSON has a form for, without escapes for HTML; the members of maps are sorted.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil // texts, maps and parts of the request have a form
	}
	return bytes.TrimSpace(b.Bytes())
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

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

// Translate implements [clientapi.API].
func (a API) Translate(body []byte) (*clientapi.Request, error) {
	in, err := clientapi.ReadObject(body, "")
	if err != nil {
		return nil, err
	}
	t := translator{in: in, kept: a.State, chat: map[string]any{}, names: map[string]toolName{}}
	if err := t.run(); err != nil {
		return nil, err
	}
	chat, err := encode(t.chat)
	if err != nil {
		return nil, err
	}
	form := form{echo: echoOf(in), names: t.names, summary: t.summary, state: a.State, store: t.store, previous: t.previous, conversation: t.conversation, added: t.added}
	return &clientapi.Request{
		Chat: chat, Kept: cap(form.echo) + t.copied, Stream: t.stream, Param: ownName, Dropped: t.dropped, Thinking: t.thinking, Stored: t.store,
		NewEncoder: func(id string, maxBytes int64) clientapi.Encoder {
			if form.store {
				id = form.state.Name(id)
			}
			return newEncoder(id, form, maxBytes)
		},
	}, nil
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

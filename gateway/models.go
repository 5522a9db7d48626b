package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// modelsPath lists the models that a caller may use; one of them is below it.
const modelsPath = "/v1/models"

// modelJSON is a model in OpenAI's form. When it was made is not known: 0, the same at every replica. The context length of its target
// has the names that clients of vLLM, of OpenRouter and of Groq read; nothing is said while it is unknown.
type modelJSON struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Created       int64  `json:"created"`
	OwnedBy       string `json:"owned_by"`
	MaxModelLen   int    `json:"max_model_len,omitempty"`
	ContextLength int    `json:"context_length,omitempty"`
	ContextWindow int    `json:"context_window,omitempty"`
}

// messagesModelJSON is a model in the form of the Messages API, whose time is the epoch if it is unknown.
type messagesModelJSON struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
	MaxInput    *int   `json:"max_input_tokens"`
	MaxTokens   *int   `json:"max_tokens"`
}

// modelList is the list in OpenAI's form.
type modelList struct {
	Object string      `json:"object"`
	Data   []modelJSON `json:"data"`
}

// messagesModelList is the list in the form of the Messages API: one page.
type messagesModelList struct {
	Data    []messagesModelJSON `json:"data"`
	HasMore bool                `json:"has_more"`
	FirstID *string             `json:"first_id"`
	LastID  *string             `json:"last_id"`
}

// models lists the routes that the caller may use, in the form of its API.
func (g *Gateway) models(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	models, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	if l.api == nil {
		list := modelList{Object: "list", Data: make([]modelJSON, 0, len(models))}
		for _, m := range models {
			list.Data = append(list.Data, newModel(m))
		}
		return l.writeJSON(w, list)
	}
	page := messagesModelList{Data: make([]messagesModelJSON, 0, len(models))}
	for _, m := range models {
		page.Data = append(page.Data, newMessagesModel(m))
	}
	if len(models) > 0 {
		page.FirstID, page.LastID = &models[0].Route, &models[len(models)-1].Route
	}
	return l.writeJSON(w, page)
}

// model shows one route that the caller may use, in the form of its API.
func (g *Gateway) model(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	models, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	id, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), modelsPath+"/"))
	at := slices.IndexFunc(models, func(m RouteState) bool { return m.Route == id })
	switch {
	case err != nil:
		return errNotFound
	case !l.Caller.Access.Allows(id):
		return &accessError{l.Caller.Tenant, id}
	case at < 0:
		return &modelError{id}
	case l.api == nil:
		return l.writeJSON(w, newModel(models[at]))
	}
	return l.writeJSON(w, newMessagesModel(models[at]))
}

// allowedModels identifies the caller and returns the models that it may use.
func (g *Gateway) allowedModels(l *accessRecord, r *http.Request) (models []RouteState, err error) {
	if l.Caller, err = g.opts.Identity.Identify(r); err != nil {
		return nil, err
	}
	for _, m := range g.opts.Replica.Health().Routes {
		if l.Caller.Access.Allows(m.Route) {
			models = append(models, m)
		}
	}
	return models, nil
}

func newModel(m RouteState) modelJSON {
	return modelJSON{ID: m.Route, Object: "model", OwnedBy: "foregate", MaxModelLen: m.Window, ContextLength: m.Window, ContextWindow: m.Window}
}

func newMessagesModel(m RouteState) messagesModelJSON {
	out := messagesModelJSON{Type: "model", ID: m.Route, DisplayName: m.Route, CreatedAt: "1970-01-01T00:00:00Z"}
	if m.Window > 0 {
		out.MaxInput, out.MaxTokens = &m.Window, &m.Window
	}
	return out
}

// writeJSON writes a small answer.
func (l *accessRecord) writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		l.code = statusGone
	}
	return nil
}

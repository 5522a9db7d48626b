package gateway

import (
	"cmp"
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

// models lists the routes that the caller may use, in the form of its API: of the Messages API as one page.
func (g *Gateway) models(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	models, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	data := make([]any, 0, len(models))
	for _, m := range models {
		data = append(data, l.shown(m))
	}
	if l.api == nil {
		return l.writeJSON(w, struct {
			Object string `json:"object"`
			Data   []any  `json:"data"`
		}{"list", data})
	}
	var page struct {
		Data    []any   `json:"data"`
		HasMore bool    `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
	}
	if page.Data = data; len(models) > 0 {
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
	case at < 0:
		_, err := g.routeFor(&l.Caller, id)
		return cmp.Or(err, error(unknownModel(id)))
	}
	return l.writeJSON(w, l.shown(models[at]))
}

// allowedModels identifies the caller and returns the models that it may use.
func (g *Gateway) allowedModels(l *accessRecord, r *http.Request) (models []RouteState, err error) {
	if l.Caller, err = g.opts.Identity.Identify(r); err != nil {
		return nil, err
	}
	for _, m := range g.opts.Replica.Health().Routes {
		if mayUse(&l.Caller, m.Route, m.External) == nil {
			models = append(models, m)
		}
	}
	return models, nil
}

// shown is a model in the form of the caller's API. The time of one of the Messages API is the epoch if it is unknown.
func (a *accessRecord) shown(m RouteState) any {
	if a.api == nil {
		return modelJSON{ID: m.Route, Object: "model", OwnedBy: "foregate", MaxModelLen: m.Window, ContextLength: m.Window, ContextWindow: m.Window}
	}
	var window *int
	if m.Window > 0 {
		window = &m.Window
	}
	return struct {
		Type        string `json:"type"`
		ID          string `json:"id"`
		DisplayName string `json:"display_name"`
		CreatedAt   string `json:"created_at"`
		MaxInput    *int   `json:"max_input_tokens"`
		MaxTokens   *int   `json:"max_tokens"`
	}{"model", m.Route, m.Route, "1970-01-01T00:00:00Z", window, window}
}

// writeJSON writes a small answer.
func (a *accessRecord) writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		a.code = statusGone
	}
	return nil
}

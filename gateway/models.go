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

// models lists the routes that the caller may use.
func (g *Gateway) models(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	models, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	data := []modelJSON{}
	for _, m := range models {
		data = append(data, shown(m))
	}
	return l.writeJSON(w, map[string]any{"object": "list", "data": data})
}

// model shows one route that the caller may use.
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
	return l.writeJSON(w, shown(models[at]))
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

// shown is a model as clients get it.
func shown(m RouteState) modelJSON {
	return modelJSON{ID: m.Route, Object: "model", OwnedBy: "foregate", MaxModelLen: m.Window, ContextLength: m.Window, ContextWindow: m.Window}
}

// writeJSON writes a small answer.
func (a *accessRecord) writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.writeBody(w, body)
	return nil
}

// writeBody writes JSON.
func (a *accessRecord) writeBody(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		a.code = statusGone
	}
}

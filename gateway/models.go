package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// modelsPath lists the models that a caller may use; one of them is below it.
const modelsPath = "/v1/models"

// modelJSON is a model in OpenAI's form.
type modelJSON struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// messagesModelJSON is a model in the form of the Messages API.
type messagesModelJSON struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
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
	ids, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	if l.api == nil {
		list := modelList{Object: "list", Data: make([]modelJSON, 0, len(ids))}
		for _, id := range ids {
			list.Data = append(list.Data, newModel(id))
		}
		return l.writeJSON(w, list)
	}
	page := messagesModelList{Data: make([]messagesModelJSON, 0, len(ids))}
	for _, id := range ids {
		page.Data = append(page.Data, newMessagesModel(id))
	}
	if len(ids) > 0 {
		page.FirstID, page.LastID = &ids[0], &ids[len(ids)-1]
	}
	return l.writeJSON(w, page)
}

// model shows one route that the caller may use, in the form of its API.
func (g *Gateway) model(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	ids, err := g.allowedModels(l, r)
	if err != nil {
		return err
	}
	id, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), modelsPath+"/"))
	switch {
	case err != nil:
		return errNotFound
	case !l.Caller.Access.Allows(id):
		return &accessError{l.Caller.Tenant, id}
	case !slices.Contains(ids, id):
		return &modelError{id}
	case l.api == nil:
		return l.writeJSON(w, newModel(id))
	}
	return l.writeJSON(w, newMessagesModel(id))
}

// allowedModels identifies the caller and returns the models that it may use.
func (g *Gateway) allowedModels(l *accessRecord, r *http.Request) (ids []string, err error) {
	if l.Caller, err = g.opts.Identity.Identify(r); err != nil {
		return nil, err
	}
	for _, m := range g.opts.Models() {
		if l.Caller.Access.Allows(m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}

func newModel(id string) modelJSON {
	return modelJSON{ID: id, Object: "model", Created: time.Now().Unix(), OwnedBy: "foregate"}
}

func newMessagesModel(id string) messagesModelJSON {
	return messagesModelJSON{Type: "model", ID: id, DisplayName: id, CreatedAt: time.Now().UTC().Format(time.RFC3339)}
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

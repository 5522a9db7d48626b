package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
)

const (
	maxActionBytes = 64 << 10        // bytes of an action's body
	actionTimeout  = 5 * time.Second // for the fleet to carry out an action
)

var (
	errNoPath    = invalid(http.StatusNotFound, "unknown_url", "There is nothing at this path.")
	errCrossSite = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "This request comes from a page of another site. Use a tool, or a page of this listener at an IP address or localhost.",
		Type:    "permission_error", Code: "cross_site",
	}}
	errAction = &problem{status: http.StatusInternalServerError, retryable: true, body: openai.ErrorBody{
		Message: "The action failed. See the gateway's log for the reason.", Type: "server_error", Code: "action_failed",
	}}
)

// fleetRoutes are the routes of operators' actions on backends. A gateway without a Fleet has none.
func (g *Gateway) fleetRoutes(r chi.Router) {
	if g.opts.Fleet == nil {
		return
	}
	r.Get("/admin/backends", g.backends)
	r.Post("/admin/drain", g.backendAction(backendAction{name: "drain", drained: true, params: []string{"backend", "pool", "for", "why"}, read: readDrain}))
	r.Post("/admin/undrain", g.backendAction(backendAction{name: "undrain", params: []string{"backend", "pool"}, read: readUndrain}))
	r.Post("/admin/spot", g.backendAction(backendAction{name: "spot", drained: true, params: []string{"backend", "pool", "for"}, read: readSpotNotice}))
}

// adminMethod lists the methods that a path of the admin listener takes.
func adminMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", methodsOf(r))
	writeProblem(w, errMethod)
}

// backendAction is one kind of action.
type backendAction struct {
	name    string // for the log
	drained bool   // whether the backend is drained afterwards
	params  []string
	read    func(q url.Values, body []byte) (backendRequest, error)
}

// actionResult is the answer to an action.
type actionResult struct {
	Backend string  `json:"backend"`
	Pool    string  `json:"pool,omitempty"`
	Drained bool    `json:"drained"`
	Seconds float64 `json:"for_seconds,omitempty"`
	Shared  bool    `json:"shared"` // the other replicas know
	Message string  `json:"message,omitempty"`
}

// backendAction handles one kind of action.
func (g *Gateway) backendAction(c backendAction) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := g.runBackendAction(c, w, r)
		if err != nil {
			writeProblem(w, g.actionProblem(err))
			return
		}
		writeJSON(w, answer)
	}
}

// runBackendAction reads an action and carries it out, even if the client disconnects. It writes one log
// line.
func (g *Gateway) runBackendAction(c backendAction, w http.ResponseWriter, r *http.Request) (actionResult, error) {
	q, err := query(r.URL.RawQuery, c.params)
	if err != nil {
		return actionResult{}, err
	}
	body, err := readActionBody(w, r)
	if err != nil {
		return actionResult{}, err
	}
	o, err := c.read(q, body)
	if err != nil {
		return actionResult{}, err
	}
	if o, err = g.resolveBackend(o); err != nil {
		return actionResult{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if c.drained {
		err = g.opts.Fleet.Drain(ctx, o.pool, o.backend, o.why, o.duration)
	} else {
		err = g.opts.Fleet.Undrain(ctx, o.pool, o.backend)
	}
	shared := !errors.Is(err, ErrNotShared)
	g.logAction(r, c.name, err).Str("pool", o.pool).Str("backend", o.backend).
		Str("why", o.why).Dur("for", o.duration).Bool("done", err == nil || !shared).Bool("shared", err == nil).Msg("operator action")
	if err != nil && shared {
		return actionResult{}, g.fleetProblem(o, err)
	}
	answer := actionResult{Backend: o.backend, Pool: o.pool, Drained: c.drained, Seconds: o.duration.Seconds(), Shared: shared}
	if c.drained && lastBackendUp(g.opts.Fleet.Backends(), o) {
		answer.Message = "It was the last backend of its pool that was up. Requests that need the pool get 503."
	}
	if !shared {
		answer.Message = strings.TrimSpace(thisReplicaOnly + " " + answer.Message)
	}
	return answer, nil
}

// thisReplicaOnly is the message of an action that Redis could not be told.
const thisReplicaOnly = "Done on this replica only: Redis does not answer. The other replicas follow within one second of its return, if this replica still runs."

// readActionBody reads the body of an action, of at most maxActionBytes bytes.
func readActionBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return bodyReader{max: maxActionBytes, wait: DefaultTimeouts().Body}.take(w, r)
}

// lastBackendUp reports whether no other backend of the pool is up.
func lastBackendUp(views []Backend, o backendRequest) bool {
	known := false
	for _, v := range views {
		if v.Pool != o.pool {
			continue
		}
		if v.ID != o.backend && v.State == "up" {
			return false
		}
		known = known || v.ID == o.backend
	}
	return known
}

// resolveBackend replaces the name in an action by the pool and id of the one matching backend. A name that
// no backend here has is left to the fleet.
func (g *Gateway) resolveBackend(o backendRequest) (backendRequest, error) {
	found := matchBackends(g.opts.Fleet.Backends(), o.pool, o.backend)
	switch len(found) {
	case 0:
		return o, nil
	case 1:
		o.pool, o.backend = found[0].Pool, found[0].ID
		return o, nil
	}
	return o, ambiguous(o, found)
}

// fleetProblem adds the available names to a fleet's error.
func (g *Gateway) fleetProblem(o backendRequest, err error) error {
	views := g.opts.Fleet.Backends()
	switch {
	case errors.Is(err, ErrUnknownBackend):
		where := ""
		if o.pool != "" {
			where = fmt.Sprintf(" in the pool %q", clip(o.pool))
		}
		return invalid(http.StatusNotFound, "unknown_backend", fmt.Sprintf("There is no backend %q%s. Known are: %s.", clip(o.backend), where, backendNames(views)))
	case errors.Is(err, ErrAmbiguousBackend):
		return ambiguous(o, matchBackends(views, "", o.backend))
	}
	return err
}

func ambiguous(o backendRequest, found []Backend) error {
	return invalid(http.StatusConflict, "ambiguous_backend", fmt.Sprintf("The backend %q matches several backends: %s. Give pool= and the backend's id.", clip(o.backend), backendNames(found)))
}

// actionProblem is problemOf for actions. It logs errors that are not the caller's fault.
func (g *Gateway) actionProblem(err error) *problem {
	if p := problemOf(err); p != errPanic {
		return p
	}
	return errAction
}

// PoolView is one pool of GET /admin/backends and GET /admin/status.
type PoolView struct {
	Pool     string        `json:"pool"`
	Backends []BackendView `json:"backends"`
}

// BackendView is one backend of GET /admin/backends and GET /admin/status.
type BackendView struct {
	ID       string   `json:"id"`
	URL      string   `json:"url"`
	Engine   string   `json:"engine,omitempty"` // the kind of its engine: vllm, sglang, llamacpp or openai
	State    string   `json:"state"`
	Why      string   `json:"why,omitempty"`
	KVUsage  *float64 `json:"kv_usage"` // null: no reading, or an engine that does not tell it
	InFlight int      `json:"in_flight"`
	Age      *float64 `json:"reading_age_seconds"`
}

// backends answers GET /admin/backends.
func (g *Gateway) backends(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"pools": poolViews(g.opts.Fleet.Backends())})
}

// poolViews sorts backends into pools, both by name.
func poolViews(views []Backend) []PoolView {
	views = slices.Clone(views)
	slices.SortFunc(views, func(a, b Backend) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID)) })
	list := []PoolView{}
	for _, v := range views {
		if len(list) == 0 || list[len(list)-1].Pool != v.Pool {
			list = append(list, PoolView{Pool: v.Pool})
		}
		line := BackendView{ID: v.ID, URL: v.URL, Engine: v.Engine, State: v.State, Why: v.Why, InFlight: v.InFlight}
		if v.Age >= 0 && !math.IsInf(v.Age, 0) {
			line.Age = &v.Age
			if !math.IsNaN(v.KVUsage) && !math.IsInf(v.KVUsage, 0) {
				line.KVUsage = &v.KVUsage
			}
		}
		last := &list[len(list)-1]
		last.Backends = append(last.Backends, line)
	}
	return list
}

// writeJSON answers 200 with v, which must be encodable.
func writeJSON(w http.ResponseWriter, v any) { writeJSONStatus(w, http.StatusOK, v) }

func writeJSONStatus(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		writeProblem(w, errAction)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client may have disconnected
}

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
	orderBody = 64 << 10        // bytes of an order's body
	orderTime = 5 * time.Second // for the fleet to carry out an order
)

var (
	errNoPath    = invalid(http.StatusNotFound, "unknown_url", "There is nothing at this path.")
	errCrossSite = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "This request comes from a page of another site. Orders are taken from tools, and from pages of this listener reached by an IP address or localhost.",
		Type:    "permission_error", Code: "cross_site",
	}}
	errOrder = &problem{status: http.StatusInternalServerError, hope: true, body: openai.ErrorBody{
		Message: "The order failed; the gateway's log says why.", Type: "server_error", Code: "order_failed",
	}}
)

// fleetRoutes are the operators' orders. A gateway without a Fleet has none.
func (g *Gateway) fleetRoutes(r chi.Router) {
	if g.opts.Fleet == nil {
		return
	}
	r.Get("/admin/backends", g.backends)
	r.Post("/admin/drain", g.change(change{what: "drain", drained: true, params: []string{"backend", "pool", "for", "why"}, read: drainOrder}))
	r.Post("/admin/undrain", g.change(change{what: "undrain", params: []string{"backend", "pool"}, read: undrainOrder}))
	r.Post("/admin/spot", g.change(change{what: "spot", drained: true, params: []string{"backend", "pool", "for"}, read: spotOrder}))
}

// adminMethod names the methods that a path of the admin listener takes.
func adminMethod(w http.ResponseWriter, r *http.Request) {
	allow := http.MethodPost
	switch path := r.URL.Path; {
	case path == "/livez", path == "/readyz":
		allow = http.MethodGet + ", " + http.MethodHead
	case path == "/admin/session":
		allow = "GET, POST, DELETE"
	case path == "/admin/settings":
		allow = "GET, POST"
	case slices.Contains([]string{"/", "/metrics", "/admin/backends", "/admin/status", "/admin/cache", "/admin/receipts", "/admin/risk", "/admin/tenants", "/admin/settings/log"}, path),
		strings.HasPrefix(path, "/admin/receipts/"), strings.HasPrefix(path, "/console/"):
		allow = http.MethodGet
	}
	w.Header().Set("Allow", allow)
	writeProblem(w, errMethod)
}

// change is a kind of order.
type change struct {
	what    string // for the log
	drained bool   // what the backend is afterwards
	params  []string
	read    func(q url.Values, body []byte) (order, error)
}

// done is the answer to an order.
type done struct {
	Backend string  `json:"backend"`
	Pool    string  `json:"pool,omitempty"`
	Drained bool    `json:"drained"`
	Seconds float64 `json:"for_seconds,omitempty"`
	Shared  bool    `json:"shared"` // the other replicas know
	Message string  `json:"message,omitempty"`
}

// change answers one kind of order.
func (g *Gateway) change(c change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := g.obey(c, w, r)
		if err != nil {
			writeProblem(w, g.orderProblem(err))
			return
		}
		writeJSON(w, answer)
	}
}

// obey reads an order and carries it out. It is finished also for somebody who
// hangs up, and leaves one line in the log.
func (g *Gateway) obey(c change, w http.ResponseWriter, r *http.Request) (done, error) {
	q, err := query(r.URL.RawQuery, c.params)
	if err != nil {
		return done{}, err
	}
	body, err := readOrder(w, r)
	if err != nil {
		return done{}, err
	}
	o, err := c.read(q, body)
	if err != nil {
		return done{}, err
	}
	if o, err = g.meant(o); err != nil {
		return done{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), orderTime)
	defer cancel()
	if c.drained {
		err = g.opts.Fleet.Drain(ctx, o.pool, o.backend, o.why, o.span)
	} else {
		err = g.opts.Fleet.Undrain(ctx, o.pool, o.backend)
	}
	shared := !errors.Is(err, ErrNotShared)
	g.orderLine(r, c.what, err).Str("pool", o.pool).Str("backend", o.backend).
		Str("why", o.why).Dur("for", o.span).Bool("done", err == nil || !shared).Bool("shared", err == nil).Msg("operator's order")
	if err != nil && shared {
		return done{}, g.refused(o, err)
	}
	answer := done{Backend: o.backend, Pool: o.pool, Drained: c.drained, Seconds: o.span.Seconds(), Shared: shared}
	if c.drained && last(g.opts.Fleet.Backends(), o) {
		answer.Message = "It was the last backend of its pool that was up: what needs the pool is answered 503."
	}
	if !shared {
		answer.Message = strings.TrimSpace("Done by this replica. The others could not be told, because Redis is away; give the order again when it is back. " + answer.Message)
	}
	return answer, nil
}

// readOrder reads the body of an order, of at most orderBody bytes.
func readOrder(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return bodyReader{max: orderBody, timeouts: DefaultTimeouts()}.take(w, r)
}

// last reports whether no other backend of the pool is up.
func last(views []BackendView, o order) bool {
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

// meant puts the names of the one backend that is meant into an order. Whom
// nobody here knows is left to the fleet.
func (g *Gateway) meant(o order) (order, error) {
	found := named(g.opts.Fleet.Backends(), o.pool, o.backend)
	switch len(found) {
	case 0:
		return o, nil
	case 1:
		o.pool, o.backend = found[0].Pool, found[0].ID
		return o, nil
	}
	return o, ambiguous(o, found)
}

// refused makes a fleet's error one that says what there is instead.
func (g *Gateway) refused(o order, err error) error {
	views := g.opts.Fleet.Backends()
	switch {
	case errors.Is(err, ErrUnknownBackend):
		where := ""
		if o.pool != "" {
			where = fmt.Sprintf(" in the pool %q", clip(o.pool))
		}
		return invalid(http.StatusNotFound, "unknown_backend", fmt.Sprintf("There is no backend %q%s. Known are: %s.", clip(o.backend), where, roll(views)))
	case errors.Is(err, ErrAmbiguousBackend):
		return ambiguous(o, named(views, "", o.backend))
	}
	return err
}

func ambiguous(o order, found []BackendView) error {
	return invalid(http.StatusConflict, "ambiguous_backend", fmt.Sprintf("The backend %q may be one of several: %s. Name its pool with pool=, and its id.", clip(o.backend), roll(found)))
}

// orderProblem is problemOf for orders: what is not the caller's is in the log.
func (g *Gateway) orderProblem(err error) *problem {
	if p := problemOf(err); p != errPanic {
		return p
	}
	return errOrder
}

// PoolView is one pool of GET /admin/backends and GET /admin/status.
type PoolView struct {
	Pool     string        `json:"pool"`
	Backends []BackendLine `json:"backends"`
}

// BackendLine is one backend of GET /admin/backends and GET /admin/status.
type BackendLine struct {
	ID       string   `json:"id"`
	URL      string   `json:"url"`
	State    string   `json:"state"`
	Why      string   `json:"why,omitempty"`
	KVUsage  *float64 `json:"kv_usage"` // null: there is no reading
	InFlight int      `json:"in_flight"`
	Age      *float64 `json:"reading_age_seconds"`
}

// backends answers GET /admin/backends.
func (g *Gateway) backends(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"pools": listed(g.opts.Fleet.Backends())})
}

// listed sorts backends into pools, both by name.
func listed(views []BackendView) []PoolView {
	views = slices.Clone(views)
	slices.SortFunc(views, func(a, b BackendView) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID)) })
	list := []PoolView{}
	for _, v := range views {
		if len(list) == 0 || list[len(list)-1].Pool != v.Pool {
			list = append(list, PoolView{Pool: v.Pool})
		}
		line := BackendLine{ID: v.ID, URL: v.URL, State: v.State, Why: v.Why, InFlight: v.InFlight}
		if v.Age >= 0 && !math.IsInf(v.Age, 0) && !math.IsNaN(v.KVUsage) && !math.IsInf(v.KVUsage, 0) {
			line.KVUsage, line.Age = &v.KVUsage, &v.Age
		}
		last := &list[len(list)-1]
		last.Backends = append(last.Backends, line)
	}
	return list
}

// writeJSON answers 200. What it is given can be encoded.
func writeJSON(w http.ResponseWriter, v any) { writeJSONStatus(w, http.StatusOK, v) }

func writeJSONStatus(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		writeProblem(w, errOrder)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // whoever asked may be gone
}

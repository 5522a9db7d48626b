package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/pool"
)

const (
	minDrain = time.Second
	maxDrain = 30 * 24 * time.Hour
	// drainAfterSpot is how long a spot machine stays drained after its end. By then it has left discovery,
	// or its address belongs to another machine.
	drainAfterSpot = 10 * time.Minute
	maxSpotNotice  = 24 * time.Hour // longest accepted notice
)

// Errors that those of [Replica.Drain] and [Replica.Undrain] may match.
var (
	ErrUnknownBackend = errors.New("unknown backend")
	// ErrNotShared means that this replica carried out the action, and the other replicas could not be told.
	ErrNotShared = errors.New("the other replicas could not be told")
)

// PoolView is one pool of GET /admin/backends and GET /admin/status.
type PoolView struct {
	Pool     string         `json:"pool"`
	Backends []pool.Backend `json:"backends"`
}

// backends answers GET /admin/backends.
func (g *Gateway) backends(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]any{"pools": poolViews(g.opts.Replica.Backends())}, nil
}

// poolViews sorts backends into pools, both by name.
func poolViews(backends []pool.Backend) []PoolView {
	backends = slices.SortedFunc(slices.Values(backends), func(a, b pool.Backend) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID)) })
	list := []PoolView{}
	for _, b := range backends {
		if len(list) == 0 || list[len(list)-1].Pool != b.Pool {
			list = append(list, PoolView{Pool: b.Pool})
		}
		last := &list[len(list)-1]
		last.Backends = append(last.Backends, b)
	}
	return list
}

// backendAction is one kind of action.
type backendAction struct {
	name    string // for the log
	drained bool   // whether the backend is drained afterwards
	params  []string
	read    func(q url.Values, body []byte) (backendRequest, error)
}

// backendRequest is an action of an operator, or a cloud's notice, for one backend.
type backendRequest struct {
	pool, backend, why string
	duration           time.Duration // 0: without end
}

// ActionResult is the answer to POST /admin/drain, /admin/undrain and /admin/spot.
type ActionResult struct {
	Backend string  `json:"backend"`
	Pool    string  `json:"pool,omitempty"`
	Drained bool    `json:"drained"`
	Seconds float64 `json:"for_seconds,omitempty"`
	Shared  bool    `json:"shared"` // the other replicas know
	Message string  `json:"message,omitempty"`
}

// backendAction carries out one kind of action, even if the client disconnects. It writes one log line.
func (g *Gateway) backendAction(c backendAction) adminHandler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		o, err := g.readAction(c, w, r)
		if err != nil {
			return nil, err
		}
		ctx, cancel := untilDone(r, actionTimeout)
		defer cancel()
		if c.drained {
			err = g.opts.Replica.Drain(ctx, o.pool, o.backend, o.why, o.duration)
		} else {
			err = g.opts.Replica.Undrain(ctx, o.pool, o.backend)
		}
		shared := !errors.Is(err, ErrNotShared)
		g.logAction(r, c.name, err).Str("pool", o.pool).Str("backend", o.backend).
			Str("why", o.why).Dur("for", o.duration).Bool("done", err == nil || !shared).Bool("shared", err == nil).Msg("operator action")
		switch {
		case errors.Is(err, ErrUnknownBackend):
			return nil, g.unknownBackend(o)
		case err != nil && shared:
			return nil, err
		}
		answer := ActionResult{Backend: o.backend, Pool: o.pool, Drained: c.drained, Seconds: o.duration.Seconds(), Shared: shared}
		up := func(b pool.Backend) bool { return b.Pool == o.pool && b.ID != o.backend && b.State == pool.StateUp }
		if c.drained && !slices.ContainsFunc(g.opts.Replica.Backends(), up) {
			answer.Message = "No other backend of its pool is up. Requests that need the pool get 503."
		}
		if !shared {
			answer.Message = strings.TrimSpace(thisReplicaOnly + " " + answer.Message)
		}
		return answer, nil
	}
}

// readAction reads an action. A name that no backend of its pool here has is left to the fleet.
func (g *Gateway) readAction(c backendAction, w http.ResponseWriter, r *http.Request) (o backendRequest, err error) {
	q, err := query(r, c.params...)
	if err != nil {
		return o, err
	}
	body, err := readActionBody(w, r)
	if err != nil {
		return o, err
	}
	if o, err = c.read(q, body); err != nil {
		return o, err
	}
	found := matchBackends(g.opts.Replica.Backends(), o.pool, o.backend)
	switch {
	case len(found) == 1:
		o.pool, o.backend = found[0].Pool, found[0].ID
	case len(found) > 1:
		return o, refuse("ambiguous_backend", fmt.Sprintf("The backend %q matches several backends: %s. Give pool= and the backend's id.", clip(o.backend), backendNames(found)))
	case o.pool == "":
		return o, g.unknownBackend(o)
	}
	return o, nil
}

// unknownBackend refuses an action on a backend that does not exist.
func (g *Gateway) unknownBackend(o backendRequest) error {
	where := ""
	if o.pool != "" {
		where = fmt.Sprintf(" in the pool %q", clip(o.pool))
	}
	return refuse("unknown_backend", fmt.Sprintf("There is no backend %q%s. Known are: %s.", clip(o.backend), where, backendNames(g.opts.Replica.Backends())))
}

// readDrain reads backend, pool, for and why. The body is ignored.
func readDrain(q url.Values, _ []byte) (backendRequest, error) {
	o, err := readUndrain(q, nil)
	if err != nil {
		return o, err
	}
	if o.duration, err = readDuration(q); err != nil {
		return o, err
	}
	o.why = cmp.Or(q.Get("why"), "by hand")
	return o, checkWhy(o.why)
}

// readUndrain reads backend and pool.
func readUndrain(q url.Values, _ []byte) (backendRequest, error) {
	o := backendRequest{pool: q.Get("pool"), backend: q.Get("backend")}
	if o.backend == "" {
		return o, badParam("backend", "is missing; give an id such as 10.0.0.7-8000, its host:port or its base URL")
	}
	for _, p := range []struct{ name, value string }{{"backend", o.backend}, {"pool", o.pool}} {
		if len(p.value) > 256 || strings.ContainsFunc(p.value, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return o, badParam(p.name, "want at most 256 printable ASCII characters without spaces")
		}
	}
	return o, nil
}

// readDuration reads for, a duration; none is 0.
func readDuration(q url.Values) (time.Duration, error) {
	if !q.Has("for") {
		return 0, nil
	}
	d, err := time.ParseDuration(q.Get("for"))
	if err != nil || d < minDrain || d > maxDrain {
		return 0, badParam("for", fmt.Sprintf("want a duration such as 10m, %s … %s", minDrain, maxDrain))
	}
	return d, nil
}

// readSpotNotice reads a cloud's notice. The query was written by an operator and takes precedence over the
// body. Of the body only three fields are read, if it is JSON: clouds send various formats.
func readSpotNotice(q url.Values, body []byte) (o backendRequest, err error) {
	var notice struct {
		Backend string  `json:"backend"`
		Pool    string  `json:"pool"`
		Seconds float64 `json:"deadline_seconds"`
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(body, &notice)); ok && e.Field != "" && !q.Has(e.Field) {
		return o, badParam(e.Field, "is of another type in the body")
	}
	if notice.Seconds < 0 || notice.Seconds > maxSpotNotice.Seconds() {
		return o, badParam("deadline_seconds", fmt.Sprintf("want seconds, 0 … %g", maxSpotNotice.Seconds()))
	}
	for name, value := range map[string]string{"backend": notice.Backend, "pool": notice.Pool} {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	if o, err = readUndrain(q, nil); err != nil {
		return o, err
	}
	o.why = "spot notice"
	o.duration, err = readDuration(q)
	o.duration = cmp.Or(o.duration, time.Duration(math.Ceil(notice.Seconds))*time.Second+drainAfterSpot)
	return o, err
}

// matchBackends returns the backends that match name, an id, a base URL or its host and port; in one pool, or in all pools if of is "".
func matchBackends(backends []pool.Backend, of, name string) (found []pool.Backend) {
	for _, b := range backends {
		if of != "" && b.Pool != of {
			continue
		}
		u, err := url.Parse(b.URL)
		if b.ID == name || b.URL == name || err == nil && u.Host == name {
			found = append(found, b)
		}
	}
	return found
}

// backendNames lists backends as pool/id for a message, at most twenty.
func backendNames(backends []pool.Backend) string {
	const maximum = 20
	names := make([]string, 0, len(backends))
	for _, b := range backends {
		names = append(names, b.Pool+"/"+b.ID)
	}
	slices.Sort(names)
	if len(names) > maximum {
		names = append(names[:maximum], "…")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

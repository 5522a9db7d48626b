package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// livez answers 200 while the process runs.
func (g *Gateway) livez(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") }

// health answers as vLLM's: an empty body, 200 while new requests should come here, else 503.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	if g.unready(g.opts.Replica.Health()) != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// version tells the program's version in the form of vLLM's.
func (g *Gateway) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(openai.AppendQuote([]byte(`{"version":`), g.opts.Version), '}')) // the client may have disconnected
}

// Health is what a replica can serve.
type Health struct {
	Routes       []RouteState // in the order of the configuration
	Redis        string       // degradation level of Redis; "" is not told
	LostSettings int          // number of settings that Redis has lost
}

// RouteState says whether a route can serve.
type RouteState struct {
	Route  string `json:"route"`
	Ready  bool   `json:"ready"`
	State  string `json:"state"` // one of the constants below
	Window int    `json:"-"`     // context length of its target in tokens, prompt and answer; 0 is unknown

	External bool `json:"-"` // its target is hosted: for tenants that may leave
}

// The states of a route. In the first four the route can serve.
const (
	RouteOK        = "ok"         // every pool has a backend that takes requests
	RouteNoDraft   = "no_draft"   // the draft pool has none, so the target answers alone
	RouteDraftOnly = "draft_only" // the target pool has none, so only drafts are served
	RouteFallback  = "fallback"   // its own pools have none, so tenants that may leave are answered by a fallback
	RouteUnreached = "unreached"  // no backend that could serve it has answered yet, or none answers any more
	RouteDown      = "down"       // every backend that could serve it is down, drained or has an open breaker
)

// RouteStateOf returns the state of a route from the states of its pools. alone: its drafts may be served
// without the target. For a route without a draft pool, draft == target.
func RouteStateOf(route string, draft, target pool.Readiness, alone bool) RouteState {
	if !alone && target != pool.Ready {
		draft = target // the draft pool cannot serve
	}
	s := RouteState{Route: route, Ready: draft == pool.Ready || target == pool.Ready, State: RouteOK}
	switch {
	case !s.Ready && max(draft, target) == pool.Unknown:
		s.State = RouteUnreached
	case !s.Ready:
		s.State = RouteDown
	case target != pool.Ready:
		s.State = RouteDraftOnly
	case draft != pool.Ready:
		s.State = RouteNoDraft
	}
	return s
}

// readyz says whether new requests should come here. With ?route=NAME all named routes must be able to serve, otherwise one
// route must. In detail it shows the state of each route, the degradation level of Redis and lost settings, too; these two do
// not affect readiness: requests are answered all the same.
func (g *Gateway) readyz(detail bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			writeText(w, http.StatusServiceUnavailable, draining+"\n")
			return
		}
		health := g.opts.Replica.Health()
		status, text := http.StatusOK, "ok\n"
		if why := g.unready(health); why != "" {
			status, text = http.StatusServiceUnavailable, why+"\n"
		}
		for _, name := range r.URL.Query()["route"] {
			i := slices.IndexFunc(health.Routes, func(s RouteState) bool { return s.Route == name })
			if i < 0 {
				writeText(w, http.StatusNotFound, "there is no such route\n")
				return
			}
			if !health.Routes[i].Ready {
				status, text = http.StatusServiceUnavailable, "route "+name+" cannot serve\n"
			}
		}
		if detail {
			text += health.lines()
		}
		writeText(w, status, text)
	}
}

// lines are what can be served, for operators.
func (h *Health) lines() (text string) {
	for _, s := range h.Routes {
		text += "route " + s.Route + ": " + s.State + "\n"
	}
	if h.Redis != "" {
		text += "redis: " + h.Redis + "\n"
	}
	if n := h.LostSettings; n > 0 {
		text += fmt.Sprintf("settings: Redis has lost %d, their last values stay in force\n", n)
	}
	return text
}

// draining is the reason in /readyz of a replica that stops.
const draining = "draining"

// unready returns why new requests should not come here, "" if they should: a route can serve, or there is none.
func (g *Gateway) unready(h Health) string {
	switch {
	case g.draining.Load():
		return draining
	case len(h.Routes) == 0, slices.ContainsFunc(h.Routes, func(s RouteState) bool { return s.Ready }):
		return ""
	case slices.ContainsFunc(h.Routes, func(s RouteState) bool { return s.State == RouteUnreached }):
		return "no route can serve: no backend has answered"
	}
	return "no route can serve: no backend is up"
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the prober may have disconnected
}

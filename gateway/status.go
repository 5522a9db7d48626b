package gateway

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/gateway/settings"
)

// Inspector shows operators the state of the replica around a gateway. It is safe for concurrent use, does
// not block, and the caller owns what it returns.
type Inspector interface {
	// Status is the state of the replica. The gateway itself adds readiness, requests in flight, and the
	// pools.
	Status() Status
	// Settings returns all live settings in force, those of a route if route is not "".
	Settings(route string) []SettingView
}

// Status is the state of one replica, as GET /admin/status returns it. Optional parts are nil or empty if
// there is nothing to show.
type Status struct {
	Version  string       `json:"version"`
	Uptime   float64      `json:"uptime_seconds"`
	Ready    string       `json:"ready"` // "yes", or why not
	Routes   []RouteState `json:"routes,omitempty"`
	InFlight int          `json:"in_flight"`
	Replicas []string     `json:"replicas,omitempty"` // live replicas, including this one

	Redis     RedisView      `json:"redis"`
	Warnings  []string       `json:"warnings,omitempty"` // about gaps in the configuration, or settings that have no effect
	Cache     *CacheTotals   `json:"cache,omitempty"`
	Settings  SettingsView   `json:"settings"`
	Files     []FileView     `json:"files,omitempty"` // files that are reloaded when they change
	Breakers  []BreakerView  `json:"breakers"`        // breakers that are not closed
	Pools     []PoolView     `json:"pools"`
	Shedding  []SheddingView `json:"shedding"`            // classes that are rejected now
	Drafts    []DraftView    `json:"drafts"`              // how routes use their draft pools
	Engines   []EngineView   `json:"engines"`             // capabilities of these pools' engines
	Targets   []TargetsView  `json:"targets,omitempty"`   // of routes with several target pools
	Fallbacks []FallbackView `json:"fallbacks,omitempty"` // hosted last resorts of routes
}

// FallbackView is a hosted last resort of a route.
type FallbackView struct {
	Route string     `json:"route"`
	Pool  string     `json:"pool"`
	When  []string   `json:"when"` // why the route's own pools give no answer: unavailable, shed
	Spent BudgetView `json:"spent"`
}

// RedisView is the shared state as this replica sees it.
type RedisView struct {
	Name  string  `json:"name,omitempty"` // where it is, without credentials; "" is none
	Level string  `json:"level"`          // shared, degraded or local
	Since float64 `json:"since_seconds"`  // seconds at this level
	Why   string  `json:"why,omitempty"`  // why it is not shared

	LostData float64 `json:"lost_data_seconds_ago,omitempty"` // since it was found that Redis had lost data; 0 is never
}

// SettingsView summarizes the live settings.
type SettingsView struct {
	Age      float64               `json:"age_seconds"`        // since they were last read
	Changed  []SettingView         `json:"changed"`            // in force and different from their defaults
	Rejected []RejectedSettingView `json:"rejected"`           // their last good values stay in force
	Unknown  []RejectedSettingView `json:"unknown"`            // ignored: of another version, or misspelt
	Switches []string              `json:"switches,omitempty"` // kill switches in force
	Lost     []settings.Change     `json:"lost,omitempty"`     // lost by Redis with its data: old is in force, new is what Redis has
}

// FileView is a file that is reloaded when it changes.
type FileView struct {
	Setting       string  `json:"setting"`                  // the setting that names it
	Age           float64 `json:"age_seconds"`              // of the content in force
	Changes       int     `json:"changes"`                  // reloads since the start
	Error         string  `json:"error,omitempty"`          // why the current content is not in force, one line per mistake
	WorldReadable bool    `json:"world_readable,omitempty"` // every user of the machine can read this file of secrets
}

// SettingView is one setting in force.
type SettingView struct {
	Name    string `json:"name"` // name or name@route
	Value   string `json:"value"`
	Default string `json:"default"`
	Range   string `json:"range,omitempty"`

	Meaning  string `json:"meaning,omitempty"` // only in GET /admin/settings, like the next field
	PerRoute bool   `json:"per_route,omitempty"`
}

// RejectedSettingView is a setting that is not in force, with the reason.
type RejectedSettingView struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

// BreakerView is a breaker that is not closed.
type BreakerView struct {
	Pool         string  `json:"pool"`
	Backend      string  `json:"backend"`
	State        string  `json:"state"`                    // open or half-open
	SecondsLeft  float64 `json:"seconds_left,omitempty"`   // until the next trial, or until the trial ends
	OpenHereOnly bool    `json:"open_here_only,omitempty"` // closed for the fleet, but open on this replica
}

// SheddingView is a pool and the classes that it rejects now.
type SheddingView struct {
	Pool       string   `json:"pool"`
	Priorities []string `json:"priorities"`
}

// statusRoutes are the routes of the replica's state. A gateway without an Inspector has none.
func (g *Gateway) statusRoutes(r chi.Router) {
	if g.opts.Inspector == nil {
		return
	}
	r.Get("/admin/status", g.status)
	r.Get("/admin/settings", g.settings)
}

// status answers GET /admin/status.
func (g *Gateway) status(w http.ResponseWriter, _ *http.Request) {
	s := g.opts.Inspector.Status()
	s.Ready = "yes"
	if why := g.unready(); why != "" {
		s.Ready = why
	}
	s.Routes = g.routeStates()
	requests, _ := g.bodies.usage()
	s.InFlight = int(requests)
	s.Pools = []PoolView{}
	if g.opts.Fleet != nil {
		s.Pools = poolViews(g.opts.Fleet.Backends())
	}
	if g.opts.Cache != nil {
		s.Cache = cacheTotals(g.opts.Cache.Totals())
	}
	writeJSON(w, s)
}

// settings answers GET /admin/settings?route=NAME.
func (g *Gateway) settings(w http.ResponseWriter, r *http.Request) {
	route, err := g.routeParam(r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	writeJSON(w, map[string]any{"route": route, "settings": g.opts.Inspector.Settings(route)})
}

// routeParam returns the parameter route, the only one allowed; "" means all.
func (g *Gateway) routeParam(r *http.Request) (string, error) {
	q, err := query(r.URL.RawQuery, []string{"route"})
	if err != nil {
		return "", err
	}
	route := q.Get("route")
	if route == "" {
		return "", nil
	}
	if _, err := g.opts.Cascade.Route(route); err != nil {
		return "", &modelError{route}
	}
	return route, nil
}

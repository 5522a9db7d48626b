package gateway

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Inspector is what operators may see of the replica around a gateway. It is safe for
// concurrent use, waits for nothing, and what it returns is the caller's.
type Inspector interface {
	// Status is how the replica stands. The gateway itself fills in whether it is ready,
	// what is in flight, and the pools.
	Status() Status
	// Settings are all live settings as they are in force, those of a route when route
	// is not "".
	Settings(route string) []SettingView
}

// Status is how one replica stands, as GET /admin/status tells it. Optional parts are
// nil or empty where there is nothing to tell.
type Status struct {
	Version  string       `json:"version"`
	Uptime   float64      `json:"uptime_seconds"`
	Ready    string       `json:"ready"` // "yes", or why not
	Routes   []RouteState `json:"routes,omitempty"`
	InFlight int          `json:"in_flight"`
	Replicas []string     `json:"replicas,omitempty"` // that live, itself among them

	Redis    RedisView      `json:"redis"`
	Warnings []string       `json:"warnings,omitempty"` // of what the configuration leaves open, or asks for and does not get
	Cache    *CacheTotals   `json:"cache,omitempty"`
	Settings SettingsView   `json:"settings"`
	Files    []FileView     `json:"files,omitempty"` // that are read again when they change
	Breakers []BreakerView  `json:"breakers"`        // those that are not closed
	Pools    []PoolView     `json:"pools"`
	Shedding []SheddingView `json:"shedding"`       // classes that are turned away now
	Drafts   []DraftView    `json:"drafts"`         // how routes use their draft pools
	Engines  []EngineView   `json:"engines"`        // what the engines of those can do
	Risk     []RiskSummary  `json:"risk,omitempty"` // of the drafts that routes serve unverified
}

// RedisView is the shared state as this replica has it.
type RedisView struct {
	Name  string  `json:"name,omitempty"` // where it is, without credentials; "" is none
	Level string  `json:"level"`          // shared, degraded or local
	Since float64 `json:"since_seconds"`  // since it is so
	Why   string  `json:"why,omitempty"`  // it is not shared
}

// SettingsView is what the live settings are and are not.
type SettingsView struct {
	Age      float64               `json:"age_seconds"`        // since they were last read
	Changed  []SettingView         `json:"changed"`            // in force and other than their defaults
	Rejected []RejectedSettingView `json:"rejected"`           // their last good values stay in force
	Unknown  []RejectedSettingView `json:"unknown"`            // ignored: of another version, or misspelt
	Switches []string              `json:"switches,omitempty"` // kill switches in force
	Lost     []SettingChange       `json:"lost,omitempty"`     // that Redis has lost with its data: old is in force, new is what Redis has
}

// FileView is a file that is read again when it changes.
type FileView struct {
	Setting       string  `json:"setting"`                  // that names it
	Age           float64 `json:"age_seconds"`              // since what is in force was put into force
	Changes       int     `json:"changes"`                  // put into force since the start
	Error         string  `json:"error,omitempty"`          // why the file as it is now is not in force, a line for each mistake
	WorldReadable bool    `json:"world_readable,omitempty"` // every user of the machine could read this file of secrets
}

// SettingView is one setting in force.
type SettingView struct {
	Name    string `json:"name"` // name or name@route
	Value   string `json:"value"`
	Default string `json:"default"`
	Range   string `json:"range,omitempty"`

	Meaning  string `json:"meaning,omitempty"` // in GET /admin/settings alone, as the next
	PerRoute bool   `json:"per_route,omitempty"`
}

// RejectedSettingView is a field of the settings that is not in force, and why.
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
	SecondsLeft  float64 `json:"seconds_left,omitempty"`   // until it is tried, or its trial is over
	OpenHereOnly bool    `json:"open_here_only,omitempty"` // closed for the fleet, and not here
}

// SheddingView is a pool and the classes that are turned away from it now.
type SheddingView struct {
	Pool       string   `json:"pool"`
	Priorities []string `json:"priorities"`
}

// statusRoutes tell operators how the replica stands. A gateway without an Inside has
// none.
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
	s.InFlight = int(g.uploads.Usage().Requests)
	s.Pools = []PoolView{}
	if g.opts.Fleet != nil {
		s.Pools = poolViews(g.opts.Fleet.Backends())
	}
	if g.opts.Cache != nil {
		s.Cache = cacheTotals(g.opts.Cache.Stats())
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

// routeParam is the route that a question is about, its only parameter; "" is all.
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

package gateway

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/pool"
)

// Replica is the process around a gateway. Its methods are safe for concurrent use, and the caller owns what they return.
type Replica interface {
	// Health tells what can be served now. It does not block.
	Health() Health
	// Status is the state of the replica, without what the gateway adds: readiness, requests in flight, pools, cache, settings.
	Status() Status
	// Reload reads the configuration again. The error is ErrNoConfigFile, or that of ctx.
	Reload(ctx context.Context, dryRun bool) (ReloadResult, error)
	// SettingsStore changes settings and has their history; nil if there is no Redis for them.
	SettingsStore() *settings.Store
	// Drain stops new work on a backend, on every replica, for d; 0 means until Undrain. Running work continues. A backend is
	// named by its pool and id. Its errors match ErrUnknownBackend, or ErrNotShared if only this replica drained it.
	Drain(ctx context.Context, pool, backend, why string, d time.Duration) error
	// Undrain ends a drain, with the same errors. A drain that does not exist is no error.
	Undrain(ctx context.Context, pool, backend string) error
	// Backends returns all backends of all pools as this replica sees them.
	Backends() []pool.Backend
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
	Files     []files.State  `json:"files,omitempty"` // files that are reloaded when they change
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
	Level string  `json:"level"`          // shared or local
	Since float64 `json:"since_seconds"`  // seconds at this level
	Why   string  `json:"why,omitempty"`  // why it is not shared

	LostData float64 `json:"lost_data_seconds_ago,omitempty"` // since it was found that Redis had lost data; 0 is never
}

// SettingsView summarizes the live settings.
type SettingsView struct {
	Age      float64                  `json:"age_seconds"`        // since they were last read
	Changed  []SettingView            `json:"changed"`            // in force and different from their defaults
	Rejected []settings.RejectedValue `json:"rejected"`           // their last good values stay in force
	Unknown  []settings.RejectedValue `json:"unknown"`            // ignored: of another version, or misspelt
	Switches []string                 `json:"switches,omitempty"` // kill switches in force
	Lost     []settings.Change        `json:"lost,omitempty"`     // lost by Redis with its data: old is in force, new is what Redis has
}

// SettingView is one setting in force.
type SettingView struct {
	Name    string `json:"name"` // name, name@route or name@route#application
	Value   string `json:"value"`
	Default string `json:"default"`
	Range   string `json:"range,omitempty"`

	Meaning  string `json:"meaning,omitempty"` // only in GET /admin/settings, like the next field
	PerRoute bool   `json:"per_route,omitempty"`
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

// CacheTotals summarizes the cache over all routes since the replica's start.
type CacheTotals struct {
	Requests    uint64  `json:"requests"` // that the cache could have answered
	HitRatio    float64 `json:"hit_ratio"`
	SavedTokens uint64  `json:"saved_tokens"`
	SavedUSD    float64 `json:"saved_usd"`
}

// EngineView shows the capabilities of a pool's engines, as the last probe found them.
type EngineView struct {
	Pool    string  `json:"pool"`
	Backend string  `json:"backend,omitempty"` // that was probed
	Age     float64 `json:"age_seconds"`       // since the probe; −1: not probed yet

	Scoring   string `json:"scoring"`   // how it scores a text, "" is not at all
	Continues bool   `json:"continues"` // it continues from token ids
	// ContinuesText is what it answers that is asked to continue the text of a chat's answer: "continues" with the rest,
	// "repeats" the text first, "no", or "" while it is not known.
	ContinuesText string `json:"continues_text"`

	Missing       []UnavailableView `json:"missing"`
	Open          []string          `json:"open,omitempty"`           // those that were not yet, or will be asked again
	NextTry       float64           `json:"next_try_seconds"`         // until one of them is asked
	Shared        bool              `json:"shared,omitempty"`         // another replica asks, this one takes over what it finds out
	Failed        string            `json:"failed,omitempty"`         // why the last question brought nothing
	ScoringClosed string            `json:"scoring_closed,omitempty"` // why scoring is paused there
	SecondsLeft   float64           `json:"seconds_left,omitempty"`   // until scoring is tried again
}

// UnavailableView is a capability that an engine lacks, with the observation that shows it; or a mode that a route's engines
// do not allow, with the reason.
type UnavailableView struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// DraftView shows how a route uses its draft pool.
type DraftView struct {
	Route            string            `json:"route"`
	Mode             string            `json:"mode"`
	UnavailableModes []UnavailableView `json:"unavailable_modes"`               // modes that the engines do not allow
	TokenPriceRatio  float64           `json:"token_price_ratio,omitempty"`     // price of a draft's answer token, in those of the target; from 1 on drafts cannot save cost; 0: unknown
	BreakEven        float64           `json:"break_even_acceptance,omitempty"` // acceptance at which drafts pay, typically; 0: unknown
	Drafts           float64           `json:"drafts"`                          // recent drafts, weighted by age
	Accepted         float64           `json:"accepted"`                        // share of them that was served
}

// TargetsView shows the target pools of a route that has several of them.
type TargetsView struct {
	Route   string       `json:"route"`
	Targets []TargetView `json:"targets"` // the one in force first
}

// TargetView is a target pool of a route.
type TargetView struct {
	Pool             string            `json:"pool"`
	Share            float64           `json:"share"`                       // of the route's conversations, 0 … 1
	Diverted         bool              `json:"diverted,omitempty"`          // it takes no requests now, so the first target answers its conversations
	UnavailableModes []UnavailableView `json:"unavailable_modes,omitempty"` // modes that its engines do not allow, and those of the first target do
}

// status answers GET /admin/status.
func (g *Gateway) status(http.ResponseWriter, *http.Request) (any, error) {
	s, health := g.opts.Replica.Status(), g.opts.Replica.Health()
	s.Ready = "yes"
	if why := g.unready(health); why != "" {
		s.Ready = why
	}
	s.Routes = health.Routes
	requests, _ := g.bodies.usage()
	s.InFlight = int(requests)
	s.Pools = poolViews(g.opts.Replica.Backends())
	s.Settings = g.settingsView(health.Routes)
	if g.opts.Cache != nil {
		t := g.opts.Cache.Totals()
		s.Cache = &CacheTotals{t.Requests, float64(t.Served) / float64(max(t.Requests, 1)), t.SavedTokens, t.SavedUSD}
	}
	return s, nil
}

// settingsView summarizes the live settings.
func (g *Gateway) settingsView(routes []RouteState) SettingsView {
	snapshot := g.opts.Settings.Snapshot()
	v := SettingsView{
		Age: g.opts.Settings.Age().Seconds(), Switches: snapshot.Warnings(), Lost: g.opts.Settings.Lost(),
		Changed: []SettingView{}, Rejected: append([]settings.RejectedValue{}, snapshot.Rejected...), Unknown: append([]settings.RejectedValue{}, snapshot.Unknown...), // none is []
	}
	for _, s := range settings.Specs() {
		if shown := settingView(s, snapshot, ""); shown.Value != shown.Default {
			v.Changed = append(v.Changed, shown)
		}
		for _, route := range routes {
			if shown := settingView(s, snapshot, route.Route); shown.Value != s.Value(snapshot.Global()) {
				v.Changed = append(v.Changed, shown)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(snapshot.Set)) {
		if settings.IsOfApplication(name) {
			v.Changed = append(v.Changed, SettingView{Name: name, Value: snapshot.Set[name]})
		}
	}
	return v
}

// settingView returns one setting in force for a route, or for all if route is "".
func settingView(s settings.Spec, snapshot *settings.Snapshot, route string) SettingView {
	v := SettingView{Name: s.Name, Value: s.Value(snapshot.Route(route)), Default: s.DefaultValue(), Range: s.Range}
	if route != "" && s.PerRoute {
		v.Name += "@" + route
	}
	return v
}

// settings answers GET /admin/settings?route=NAME with all settings in force.
func (g *Gateway) settings(_ http.ResponseWriter, r *http.Request) (any, error) {
	route, err := g.routeParam(r)
	if err != nil {
		return nil, err
	}
	snapshot := g.opts.Settings.Snapshot()
	var all []SettingView
	for _, s := range settings.Specs() {
		v := settingView(s, snapshot, route)
		v.Meaning, v.PerRoute = s.Doc, s.PerRoute
		all = append(all, v)
	}
	return map[string]any{"route": route, "settings": all}, nil
}

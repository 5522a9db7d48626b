package app

import (
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
	"github.com/foregate/foregate/tiers/upstream"
)

// makePools makes the pools of backends. They watch their backends while the replica runs.
func (a *App) makePools() error {
	for name, def := range a.Options.File.Pools {
		own, err := poolCredentials(name, def, a.files)
		if err != nil {
			return err
		}
		p, err := pool.New(pool.Options{
			Credentials: own, HTTPS: def.TLS.On,
			Name: name, Model: def.Model, Backends: def.Backends, Discover: def.Discover, USDPerHour: def.USDPerHour,
			Priorities: def.Scheduler == config.SchedulerPriority,
			Config:     func() choose.Config { return a.Settings.Snapshot().Global().Pool },
			Pressure:   func() pressure.Config { return a.Settings.Snapshot().Global().Pressure },
			Open:       func(backend string) bool { return a.Breakers.Open(name, backend) },
			Shut:       func(backend string) bool { return a.Breakers.Shut(name, backend) },
			Ramp:       func(backend string) float64 { return a.Breakers.Ramp(name, backend) },
			Fleet:      a.Fleet,
			OnCapacity: func() { a.queues.Wake(name) },
			Index:      a.indexOf(name, def.KVEvents, own),
			Logger:     a.Options.Logger, Registerer: a.Options.Registerer,
		})
		if err != nil {
			return err
		}
		a.Pools[name], a.members[name].Pool = p, p
	}
	return nil
}

// makeCascade makes the routes and the cascade.
func (a *App) makeCascade() (err error) {
	f := a.Options.File
	var routes []tiers.Route
	for _, def := range f.Routes {
		routes = append(routes, tiers.Route{
			Model: def.Model, Draft: a.Pools[def.Draft], Target: a.Pools[def.Target], SameTokenizer: def.SameTokenizer,
			Config: func() plan.Config { return a.Settings.Snapshot().Route(def.Model).Tiers },
			Prices: routePrices(f, def, a.Pools),
		})
	}
	a.upstream = upstream.New(upstream.Options{
		NetHTTP: f.Engines.HTTPClient == config.HTTPClientNetHTTP,
		Dial:    func() upstream.Dial { return a.Settings.Snapshot().Global().Dial }, MaxBody: f.Limits.ResponseBytes,
	})
	a.cascade, err = tiers.New(tiers.Options{
		Routes: routes, Upstream: a.upstream, Breaker: permits{a.Breakers}, Queue: a, MaxBody: f.Limits.ResponseBytes,
		Registerer: a.Options.Registerer, ContextWindow: a.upstream.ContextWindow, Capabilities: a.prober.Capabilities,
		Evidence: evidenceBook{a.evidence}, ScoreMaps: a.calibrated, AuditsAll: a.refits.Collects, Replicas: a.Fleet.Replicas, UnderPressure: a.shortOf,
	})
	return err
}

// reaches returns the readiness of a route's pools. Drafts go only to backends that accept them without a
// wait. Without a draft pool the draft's readiness is the target's.
func reaches(draft, target *pool.Pool) (forDrafts, forTarget pool.Readiness) {
	forTarget = target.Readiness()
	if draft == nil {
		return forTarget, forTarget
	}
	return draft.OptionalReadiness(), forTarget
}

// RouteStates returns the state of each route, in the order of the file.
func (a *App) RouteStates() []gateway.RouteState {
	out := make([]gateway.RouteState, 0, len(a.Options.File.Routes))
	for _, def := range a.Options.File.Routes {
		draft, target := reaches(a.Pools[def.Draft], a.Pools[def.Target])
		rt, err := a.cascade.Route(def.Model)
		out = append(out, gateway.RouteStateOf(def.Model, draft, target, err == nil && a.cascade.ServesUncheckedDrafts(rt)))
	}
	return out
}

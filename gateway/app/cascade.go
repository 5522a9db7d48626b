package app

import (
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/upstream"
)

// makePools makes the pools of backends. They watch their backends while the replica runs.
func (a *App) makePools() error {
	r, err := a.newRouting(a.Options.File, &routing{})
	if err != nil {
		return err
	}
	a.routing.Store(r)
	return a.Fleet.SetPools(r.fleetPools())
}

// makeUpstream makes the client of the engines.
func (a *App) makeUpstream() {
	a.upstream = upstream.New(upstream.Options{
		Connect: func() time.Duration { return a.Settings.Snapshot().Global().ConnectTimeout }, MaxBody: a.Options.File.Limits.ResponseBytes,
	})
}

// makeCascade makes the routes and the cascade.
func (a *App) makeCascade() (err error) {
	f := a.Options.File
	o := tiers.Options{
		Routes: a.tierRoutes(a.routing.Load()), Upstream: a.upstream, Breaker: permits{a.Breakers}, Queue: a, MaxBody: f.Limits.ResponseBytes,
		Registerer: a.Options.Registerer, ContextWindow: a.upstream.ContextWindow, Capabilities: a.prober.Capabilities,
		Evidence: a.evidence, AuditsAll: a.refits.Collects, Replicas: a.Fleet.Replicas,
	}
	a.cascade, err = tiers.New(o)
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
	r := a.routing.Load()
	out := make([]gateway.RouteState, 0, len(r.file.Routes))
	for _, def := range r.file.Routes {
		draft, target := reaches(r.pool(def.Draft), r.pool(def.Target))
		rt, err := a.cascade.Route(def.Model)
		state := gateway.RouteStateOf(def.Model, draft, target, err == nil && a.cascade.ServesUncheckedDrafts(rt))
		if !state.Ready && a.leaves(r, def) {
			// Without it no replica would be ready, and nobody would reach the last resort.
			state.Ready, state.State = true, gateway.RouteFallback
		}
		if is := a.prober.Capabilities(def.Target); is != nil {
			state.Window = is.Window
		}
		out = append(out, state)
	}
	return out
}

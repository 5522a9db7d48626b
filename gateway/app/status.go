package app

import (
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

var _ gateway.Replica = (*App)(nil)

// Status returns the state of the replica, without what the gateway adds.
func (a *App) Status() gateway.Status {
	s := gateway.Status{
		Version: a.Version, Uptime: time.Since(a.began).Seconds(), Replicas: a.Fleet.Members(),
		Redis: gateway.RedisView{Name: a.Stores.Name, Level: a.Fleet.Level(), Since: time.Since(a.Fleet.Since()).Seconds()},
	}
	if at := a.Fleet.LostData(); at != nil {
		s.Redis.LostData = time.Since(*at).Seconds()
	}
	if err := a.Fleet.LastError(); err != nil {
		s.Redis.Why = err.Error()
	}
	s.Warnings = a.allWarnings()
	s.Files = a.files.States()
	s.Engines, s.Drafts = a.engines(), a.drafting()
	s.Targets = a.targetViews()
	s.Fallbacks = a.fallbackViews()
	s.Breakers = []gateway.BreakerView{}
	for _, b := range a.Breakers.States() {
		if b.State != breaker.Closed {
			s.Breakers = append(s.Breakers, gateway.BreakerView{Pool: b.Pool, Backend: b.Backend, State: b.State.String(), SecondsLeft: b.Remaining.Seconds(), OpenHereOnly: b.Alone})
		}
	}
	s.Shedding = []gateway.SheddingView{}
	for _, pool := range a.routing.Load().poolNames() {
		v := gateway.SheddingView{Pool: pool}
		for _, class := range a.queues.Shedding(pool) {
			v.Priorities = append(v.Priorities, class.String())
		}
		if len(v.Priorities) > 0 {
			s.Shedding = append(s.Shedding, v)
		}
	}
	return s
}

// Health tells what can be served now.
func (a *App) Health() gateway.Health {
	return gateway.Health{Routes: a.RouteStates(), Redis: a.Fleet.Level(), LostSettings: len(a.Settings.Lost())}
}

// SettingsStore returns the store of settings, nil if no Redis has settings. A reload changes the routes that may have
// settings.
func (a *App) SettingsStore() *settings.Store {
	if a.Stores.Settings == nil {
		return nil
	}
	return settings.NewStore(a.Stores.Settings, a.routes())
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
		state.External = err == nil && rt.Target.External()
		out = append(out, state)
	}
	return out
}

// targetViews returns the routes with several targets, in the order of the file.
func (a *App) targetViews() []gateway.TargetsView {
	var out []gateway.TargetsView
	for _, def := range a.file().Routes {
		rt, err := a.cascade.Route(def.Model)
		if err != nil || len(rt.Variants) == 0 {
			continue
		}
		out = append(out, gateway.TargetsView{Route: def.Model, Targets: a.variantViews(rt)})
	}
	return out
}

// variantViews returns the targets of a route, the incumbent first.
func (a *App) variantViews(rt *tiers.Route) []gateway.TargetView {
	sum := rt.Weight
	for _, v := range rt.Variants {
		sum += v.Weight
	}
	possible := a.cascade.Modes(rt)
	out := []gateway.TargetView{{Pool: rt.Target.Name(), Share: rt.Weight / sum}}
	for _, v := range rt.Variants {
		out = append(out, gateway.TargetView{
			Pool: v.Route.Target.Name(), Share: v.Weight / sum, Diverted: rt.PassesOver(v.Route),
			UnavailableModes: lostModes(possible, a.cascade.Modes(v.Route)),
		})
	}
	return out
}

// lostModes returns the modes that the incumbent's engines allow and the variant's do not. Both lists have the same order.
func lostModes(incumbent, variant []plan.ModeState) []gateway.UnavailableView {
	var out []gateway.UnavailableView
	for i, m := range variant {
		if m.Missing != "" && incumbent[i].Missing == "" {
			out = append(out, gateway.UnavailableView{Name: string(m.Mode), Reason: m.Reason})
		}
	}
	return out
}

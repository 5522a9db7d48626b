package app

import (
	"slices"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// probedPools returns the pools for the prober. Each means the pool that has its name when it is called. An engine is not
// probed before it was asked for its kind: by the rules of another kind a slow engine would be busy for minutes in vain.
func (a *App) probedPools(r *routing) []probe.Pool {
	var pools []probe.Pool
	for _, name := range r.poolNames() {
		if !r.probes(name) {
			continue
		}
		asked := probe.Pool{
			Name: name, Model: r.pools[name].Model(), Credentials: func() *credentials.Credentials { return a.Pool(name).Credentials() },
			MayScore: func(backend string, tokens int) (func(error), error) {
				return a.cascade.MayScore(name, backend, tokens)
			},
			Backends: func() (out []probe.Backend) {
				if p := a.Pool(name); p != nil { // else a reload has removed it
					for _, b := range p.Snapshot() {
						out = append(out, probe.Backend{ID: b.ID, URL: b.URL, Engine: b.Engine, Up: b.Probed, Life: b.Life})
					}
				}
				return out
			},
			Ended: func(backend string, err error) {
				if p := a.Pool(name); p != nil {
					p.NoteProbe(backend, p.Credentials(), err)
				}
			},
		}
		if r.pools[name].Priorities() {
			late := plan.EnginePriority(0)
			asked.Priority = &late
		}
		pools = append(pools, asked)
	}
	return pools
}

// probes reports whether a route needs what the engines of the pool can do.
func (r *routing) probes(name string) bool {
	return slices.ContainsFunc(r.file.Routes, func(def config.Route) bool { return slices.Contains(def.ProbedPools(), name) })
}

// economyRoutes returns the routes with drafts.
func (a *App) economyRoutes() []economy.Route {
	r := a.routing.Load()
	var routes []economy.Route
	for _, def := range r.file.Routes {
		if def.Draft != "" {
			routes = append(routes, economy.Route{Name: def.Model, Prices: r.prices(def), Shape: func() economy.Shape {
				return typicalShape(a.live(def.Model).Tiers)
			}})
		}
	}
	return routes
}

// engines returns the results of the probes.
func (a *App) engines() []gateway.EngineView {
	out := []gateway.EngineView{}
	r := a.routing.Load()
	for _, name := range r.poolNames() {
		c := a.prober.Capabilities(name)
		v := gateway.EngineView{Pool: name, Age: -1, Missing: []gateway.UnavailableView{}}
		if c != nil {
			v.Backend, v.Age, v.Scoring = c.Backend, time.Since(c.At).Seconds(), string(c.Scoring)
			v.ContinuesText = string(c.Continue)
			v.Continues = c.MissingReason(probe.MissingContinue) == ""
			for _, m := range c.Missing {
				v.Missing = append(v.Missing, gateway.UnavailableView{Name: m.Name, Reason: m.Reason})
			}
		}
		progress := a.prober.Progress(name)
		v.Open, v.Failed, v.Shared = progress.Open, progress.Failed, progress.Shared
		if !progress.Next.IsZero() {
			v.NextTry = max(time.Until(progress.Next).Seconds(), 0)
		}
		if open, why, until := a.cascade.ScoringState(name); open {
			v.ScoringClosed, v.SecondsLeft = why, max(time.Until(until).Seconds(), 0)
		}
		if c != nil || r.probes(name) {
			out = append(out, v)
		}
	}
	return out
}

// drafting returns how each route uses its draft pool.
func (a *App) drafting() []gateway.DraftView {
	out := []gateway.DraftView{}
	for _, def := range a.file().Routes {
		rt, err := a.cascade.Route(def.Model)
		if err != nil || rt.Draft == nil {
			continue
		}
		v := gateway.DraftView{Route: def.Model, Mode: string(rt.Config().Mode), UnavailableModes: []gateway.UnavailableView{}}
		for _, m := range a.cascade.Modes(rt) {
			if m.Missing != "" {
				v.UnavailableModes = append(v.UnavailableModes, gateway.UnavailableView{Name: string(m.Mode), Reason: m.Reason})
			}
		}
		var served float64
		a.cascade.CostStatistics().Each(func(b economy.TrafficClass, e economy.Expectation) {
			if b.Route == def.Model {
				v.Drafts += e.Samples
				served += e.Samples * e.Acceptance
			}
		})
		if v.Drafts > 0 {
			v.Accepted = served / v.Drafts
		}
		if p := rt.Prices(); p.Complete() {
			v.TokenPriceRatio = p.DraftDecode / p.TargetDecode
		}
		v.BreakEven = economy.BreakEven(rt.Prices(), typicalShape(rt.Config()), float64(typicalRequests[0].output))
		out = append(out, v)
	}
	return out
}

// typicalShape is a typical chat request under this mode.
func typicalShape(cfg plan.Config) economy.Shape {
	whole := cfg.Mode != plan.ModeConfidence
	return economy.Shape{Prompt: typicalRequests[0].prompt, Holdback: cfg.HoldbackTokens, Whole: whole, Scored: whole}
}

// EnginesKnown reports whether the engines of every pool of a route that drafts, or has several targets, have been probed.
func (a *App) EnginesKnown() bool {
	r := a.routing.Load()
	return !slices.ContainsFunc(r.poolNames(), func(name string) bool { return r.probes(name) && a.prober.Capabilities(name) == nil })
}

package app

import (
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/refit"
)

// makeRefits makes the refits of the routes' scores.
func (a *App) makeRefits() {
	a.refits = refit.New(refit.Options{
		Book: a.evidence, Routes: a.routes, Route: a.refitRoute, Logger: a.Options.Logger, Registerer: a.Options.Registerer,
		Mine: func(route string) bool { return a.Fleet.Mine("refits", route) },
	})
}

// refitRoute returns the live settings of a route's refits.
func (a *App) refitRoute(route string) refit.Route {
	cfg := &a.Settings.Snapshot().Route(route).Tiers
	return refit.Route{Auto: refits(cfg), Rule: cfg.Risk.Rule}
}

// refits reports whether a fitted score may judge drafts.
func refits(cfg *plan.Config) bool { return cfg.Risk.Refit && cfg.Mode.Audited() }

// tiersConfig returns the live settings of a route's requests, with the score in force.
func (a *App) tiersConfig(route string) plan.Config {
	cfg := a.Settings.Snapshot().Route(route).Tiers
	if m := a.refits.Score(route); m != nil && refits(&cfg) {
		cfg.Risk.ScoreVersion, cfg.Accept.ScoreMap = m.Version, m
	}
	return cfg
}

// refitViews returns the candidates of all routes (gateway.Options.Refits).
func (a *App) refitViews() []gateway.RefitView {
	var views []gateway.RefitView
	for _, route := range a.routes() {
		if p := a.refits.Progress(route); p.Candidate.Version != 0 {
			views = append(views, gateway.RefitView{Route: route, Version: p.Candidate.Version, Audits: p.Audits})
		}
	}
	return views
}

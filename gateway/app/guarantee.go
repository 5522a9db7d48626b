package app

import (
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// economics returns what the requests of an evidence key are like: those that came to this replica, of each of them as many.
func (a *App) economics(k risk.Key) risk.Economics {
	var p economy.Prices
	r := a.routing.Load()
	if def, ok := r.routes[k.Route]; ok {
		p = r.prices(def)()
	}
	w, c := a.cascade.Workload(k), a.live(k.Route).Tiers
	w.PerDay *= float64(max(a.Fleet.Replicas(), 1))
	return w.Economics(p, &c)
}

// refitRules returns the rules of the routes whose scores are refitted.
func (a *App) refitRules() map[string]risk.Rule {
	rules := map[string]risk.Rule{}
	for _, def := range a.file().Routes {
		if cfg := a.live(def.Model).Tiers; def.Draft != "" && cfg.Risk.Refit && cfg.Mode.Audited() {
			rules[def.Model] = cfg.Risk.Rule
		}
	}
	return rules
}

// tiersConfig returns the live settings of a route's requests, with the score in force.
func (a *App) tiersConfig(route string) plan.Config {
	cfg := a.live(route).Tiers
	if m := a.refits.Score(route); m != nil && cfg.Risk.Refit && cfg.Mode.Audited() {
		cfg.Accept.ScoreMap = m
	}
	return cfg
}

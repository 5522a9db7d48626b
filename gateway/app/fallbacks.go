package app

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// fallbacks returns the hosted last resorts of a route.
func (r *routing) fallbacks(def config.Route) []tiers.Fallback {
	var out []tiers.Fallback
	for _, fb := range def.Fallbacks {
		t := tiers.Fallback{
			Pool: r.pool(fb.Pool), NanoUSDPerHour: int64(math.Round(fb.MaxUSDPerHour * 1e9)), Names: namesOf(r.file, r.file.Pools[fb.Pool]),
		}
		for _, w := range fb.When {
			t.When = append(t.When, plan.FailureCause(w))
		}
		out = append(out, t)
	}
	return out
}

// fallbacksTime bounds how long the status waits for the dollars of fallbacks in Redis. What is not known by then is as
// this replica knew it last.
const fallbacksTime = 250 * time.Millisecond

// fallbackViews returns the fallbacks of all routes, with their dollars of the hour.
func (a *App) fallbackViews() []gateway.FallbackView {
	var out []gateway.FallbackView
	var queries []ledger.BudgetQuery
	for _, def := range a.file().Routes {
		rt, err := a.cascade.Route(def.Model)
		if err != nil {
			continue
		}
		for i := range rt.Fallbacks {
			fb := &rt.Fallbacks[i]
			v := gateway.FallbackView{Route: def.Model, Pool: fb.Pool.Name()}
			for _, cause := range fb.When {
				v.When = append(v.When, string(cause))
			}
			out = append(out, v)
			queries = append(queries, ledger.BudgetQuery{Tenant: tiers.FallbackOwner(v.Route, v.Pool), Budgets: tiers.FallbackBudget(fb)})
		}
	}
	if out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), fallbacksTime)
	defer cancel()
	for i, states := range a.Ledger.States(ctx, queries) {
		if len(states) > 0 {
			out[i].Spent = gateway.BudgetViewOf(states[0])
		}
	}
	return out
}

// namesOf returns the routes that offer the model of a hosted pool at one of its servers, by a pool of their own.
func namesOf(f *config.File, hosted config.Pool) []string {
	var names []string
	for _, rt := range f.Routes {
		for _, name := range append(rt.TargetPools(), rt.Draft) {
			p := f.Pools[name]
			same := func(url string) bool { return slices.Contains(hosted.Backends, url) }
			if p.Model == hosted.Model && slices.ContainsFunc(p.Backends, same) && !slices.Contains(names, rt.Model) {
				names = append(names, rt.Model)
			}
		}
	}
	return names
}

// leaves reports whether a fallback of the route can answer somebody while its own pools are unavailable. Its dollars are
// not looked at.
func (a *App) leaves(r *routing, def config.Route) bool {
	mayLeave := func(t identity.Tenant) bool { return t.AllowExternal }
	if !r.file.Identity.Default.AllowExternal && !slices.ContainsFunc(a.identity.Tenants(), mayLeave) {
		return false
	}
	return slices.ContainsFunc(def.Fallbacks, func(fb config.Fallback) bool {
		p := r.pool(fb.Pool)
		return slices.Contains(fb.When, config.WhenUnavailable) && p != nil && p.Readiness() != pool.Down
	})
}

package app

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// makeEvidence makes the store of audit results, which all replicas share.
func (a *App) makeEvidence() {
	of := func(route string) *plan.Risk { return &a.Settings.Snapshot().Route(route).Tiers.Risk }
	a.evidence = evidence.New(evidence.Options{
		Redis: a.Options.Stores.Control, Logger: a.Options.Logger, Registerer: a.Options.Registerer,
		Rule:      func(route string) risk.Rule { return of(route).Rule },
		Stale:     func(route string) time.Duration { return of(route).MaxStaleness },
		Warmup:    func(route string) time.Duration { return of(route).WarmupDuration },
		Economics: a.economics,
	})
}

// economics returns what the requests of an evidence key are like: those that came to this replica, of each of them as many.
func (a *App) economics(k risk.Key) risk.Economics {
	var p economy.Prices
	r := a.routing.Load()
	if def, ok := r.routes[k.Route]; ok {
		p = r.prices(def)()
	}
	w, c := a.cascade.Workload(k), a.Settings.Snapshot().Route(k.Route).Tiers
	w.PerDay *= float64(max(a.Fleet.Replicas(), 1))
	return w.Economics(p, &c)
}

// Guarantees returns the guarantee of each traffic class.
func (a *App) Guarantees(ctx context.Context) ([]risk.Summary, error) {
	return a.evidence.Summaries(ctx)
}

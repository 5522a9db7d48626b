package app

import (
	"context"
	"time"

	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// makeEvidence makes the store of audit results, which all replicas share.
func (a *App) makeEvidence() {
	config := func(route string) *plan.Config { return &a.Settings.Snapshot().Route(route).Tiers }
	of := func(route string) *plan.Risk { return &config(route).Risk }
	a.evidence = evidence.New(evidence.Options{
		Redis: a.Options.Stores.Control, Logger: a.Options.Logger, Registerer: a.Options.Registerer,
		Rule:  func(route string) risk.Rule { return of(route).Rule },
		Stale: func(route string) time.Duration { return of(route).MaxStaleness },
	})
	a.risks = &riskview.Watcher{Evidence: a.evidence, Config: config, Economics: a.economics}
	if a.Options.Registerer != nil {
		a.Options.Registerer.MustRegister(riskview.NewCollector(a.risks.States, a.risks.Summary))
	}
}

// economics returns what the requests of an evidence key are like: those that came to this replica, of each of them as many.
func (a *App) economics(k risk.Key) riskview.Economics {
	w := a.cascade.Workload(k)
	e := riskview.Economics{
		PerDay: w.PerDay * float64(max(a.Fleet.Replicas(), 1)), Prompt: w.Prompt, Output: w.Output, Holdback: w.Holdback, Salvaged: w.Salvaged,
	}
	r := a.routing.Load()
	if def, ok := r.routes[k.Route]; ok {
		e.Prices = r.prices(def)()
	}
	return e
}

// Guarantees returns the guarantee of each traffic class.
func (a *App) Guarantees(ctx context.Context) ([]risk.Summary, error) { return a.risks.Summaries(ctx) }

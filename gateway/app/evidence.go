package app

import (
	"context"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/riskview"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/calibrate"
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
	a.risks = riskview.New(riskview.Options{Evidence: a.evidence, Config: config, Logger: a.Options.Logger, Economics: a.economics})
	if a.Options.Registerer != nil {
		a.Options.Registerer.MustRegister(evidence.NewCollector(a.risks.States, a.risks.Phases))
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

// evidenceBook adapts the evidence to the cascade.
type evidenceBook struct{ *evidence.Store }

// Open implements [audit.Evidence].
func (l evidenceBook) Open(ctx context.Context, a audit.PendingAudit) (risk.OpenResult, error) {
	return l.Store.Open(ctx, evidence.Audit(a))
}

// parsedScore is a calibrated score as a request uses it, and what it was parsed from. A request would wait 31 µs for the
// parser (BenchmarkParse of tiers/calibrate).
type parsedScore struct {
	version int
	raw     *byte // first byte of the text, which is never written again
	score   *accept.ScoreMap
}

// calibrated returns a version of a route's calibrated score map, nil if there is none.
func (a *App) calibrated(route string, version int) *accept.ScoreMap {
	raw, ok := a.evidence.Map(route, version)
	if !ok || len(raw) == 0 {
		return nil
	}
	last := a.routing.Load().scores[route]
	if last != nil {
		if p := last.Load(); p != nil && p.version == version && p.raw == &raw[0] {
			return p.score
		}
	}
	f, err := calibrate.Parse(raw)
	if err != nil {
		a.Options.Logger.Error().Err(err).Str("route", route).Int("version", version).Msg("a calibrated score is not readable; requests go to the target")
		return nil
	}
	m := f.Map
	m.Version = version
	if last != nil {
		last.Store(&parsedScore{version, &raw[0], &m})
	}
	return &m
}

// shortOf reports whether a pool sheds a class, or is so full that it would continue to shed it.
func (a *App) shortOf(route, name string, class int8) bool {
	p := a.Pool(name)
	if p == nil {
		return false
	}
	c := identity.Priority(class)
	cfg := a.Settings.Snapshot().Route(route).Admission
	return slices.Contains(a.queues.Shedding(name), c) || p.Load() >= cfg.Threshold(c)-cfg.Hysteresis
}

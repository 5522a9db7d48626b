package main

import (
	"context"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/calibrate"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// makeEvidence keeps what audits have shown, together with the other replicas.
func (r *replica) makeEvidence() {
	config := func(route string) *plan.Config { return &r.settings.Snapshot().Route(route).Tiers }
	of := func(route string) *plan.Risk { return &config(route).Risk }
	r.evidence = evidence.New(evidence.Options{
		Redis: r.redis, Logger: r.log, Registerer: r.registerer,
		Rule:        func(route string) risk.Rule { return of(route).Rule },
		Stale:       func(route string) time.Duration { return of(route).MaxStaleness },
		StaleServes: func(route string) bool { return of(route).ServeStale },
	})
	r.risks = &riskSource{book: r.evidence, config: config, log: r.log, now: time.Now}
	for _, def := range r.file.Routes {
		r.risks.routes = append(r.risks.routes, def.Model)
	}
	if r.registerer != nil {
		r.registerer.MustRegister(evidence.NewCollector(r.risks.states, r.risks.inherited, r.risks.phases))
	}
}

// ledger is the evidence as the cascade knows it.
type ledger struct{ *evidence.Book }

// Open is [audit.Evidence].
func (l ledger) Open(ctx context.Context, a audit.PendingAudit) (risk.OpenResult, error) {
	return l.Book.Open(ctx, evidence.Audit(a))
}

// calibrated is a version of a route's calibrated score, nil where there is none.
func (r *replica) calibrated(route string, version int) *accept.ScoreMap {
	raw, ok := r.evidence.Map(route, version)
	if !ok {
		return nil
	}
	f, err := calibrate.Parse(raw)
	if err != nil {
		r.log.Error().Err(err).Str("route", route).Int("version", version).Msg("a calibrated score is not readable; requests go to the target")
		return nil
	}
	m := f.Map
	m.Version = version
	return &m
}

// shortOf reports whether a pool is about to turn a class away: it does already, or its backends
// are as full as they must not be for that to end.
func (r *replica) shortOf(route, name string, class int8) bool {
	p := r.pools[name]
	if p == nil {
		return false
	}
	c := identity.Priority(class)
	cfg := r.settings.Snapshot().Route(route).Admission
	return slices.Contains(r.lines.Shedding(name), c) || p.Load() >= cfg.Threshold(c)-cfg.Hysteresis
}

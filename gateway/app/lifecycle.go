package app

import (
	"context"
	"net"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Start starts the loops of the components, and listens. It returns when requests are accepted.
func (a *App) Start() error {
	a.stopLoops = supervisor{a.Options.Logger, a.gateway.CountPanic}.start(a.loops())
	err := a.gateway.Start()
	if err != nil {
		a.stopLoops()
	}
	return err
}

// Stop drains: it accepts no new work, waits for requests in progress, and ends the loops. ctx bounds the wait for requests.
// A second call does nothing.
func (a *App) Stop(ctx context.Context) {
	a.gateway.Stop(ctx)
	if a.stopLoops != nil {
		a.stopLoops()
	}
}

// Run serves until ctx ends or a listener fails, and then drains as the file's drain section says.
func (a *App) Run(ctx context.Context) error {
	log, drain := a.Options.Logger, a.Options.File.Drain
	if err := a.Start(); err != nil {
		return err
	}
	log.Info().Stringer("listen", a.Addr()).Stringer("admin", a.AdminAddr()).Msg("serving")
	var err error
	select {
	case <-ctx.Done():
	case err = <-a.gateway.Failed():
	}
	log.Info().Dur("delay", drain.Delay).Dur("grace", drain.Grace).Msg("draining")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain.Delay+drain.Grace+time.Second)
	defer cancel()
	a.Stop(stopping)
	log.Info().Msg("stopped")
	return err
}

// Addr is the public listener's address, after Start.
func (a *App) Addr() net.Addr { return a.gateway.Addr() }

// AdminAddr is the address of the admin listener, after Start; nil without one.
func (a *App) AdminAddr() net.Addr { return a.gateway.AdminAddr() }

// EnginesKnown reports whether the engines of every pool of a route that drafts, or has several targets, have been probed.
func (a *App) EnginesKnown() bool {
	for _, def := range a.file().Routes {
		for _, name := range def.ProbedPools() {
			if !a.prober.Capabilities(name).Complete() {
				return false
			}
		}
	}
	return true
}

// Guarantees returns the guarantee of each traffic class.
func (a *App) Guarantees(ctx context.Context) ([]risk.Summary, error) { return a.risks.Summaries(ctx) }

// Backends returns the ids of a pool's backends; none for an unknown pool.
func (a *App) Backends(pool string) []string {
	p := a.Pool(pool)
	if p == nil {
		return nil
	}
	var ids []string
	for _, b := range p.Snapshot() {
		ids = append(ids, b.ID)
	}
	return ids
}

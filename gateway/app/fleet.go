package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
)

// makeFleet makes the fleet, through which pools share state with other replicas. It is made before the pools, because
// they need it.
func (a *App) makeFleet() (err error) {
	o := fleet.Options{
		Redis: a.Stores.Control, Expect: a.File.Redis.Replicas, Logger: a.Logger, Registerer: a.Registerer,
		// A reading takes up to one tick of its sender and one of its receiver, and must arrive before it is
		// overdue (pool.Overdue).
		Interval: func() time.Duration { return a.global().ScrapeInterval / 2 },
		Topics: []fleet.Topic{
			{Name: probe.Topic, Tell: func() map[string]string { return a.prober.Tell() }, Take: a.takeProbe},
			{Name: breaker.Topic, Tell: a.Breakers.Tell, Take: a.Breakers.Take, Keep: time.Minute},
			{Name: settings.Topic, Tell: a.Settings.Tell, Take: a.Settings.Take},
		},
		Hashes: []fleet.Hash{{Key: cache.KeyEpochs, Read: a.readPurges}},
		Lost:   []func(){func() { a.Ledger.Lost() }, func() { a.evidence.Lost() }}, // which are made after the fleet
	}
	a.Fleet, err = fleet.New(o)
	return err
}

// takeProbe passes what a replica has found out of a pool's engines.
func (a *App) takeProbe(pool, text string, age time.Duration) { a.prober.Take(pool, text, age) }

// readPurges passes the purges of all replicas to the cache.
func (a *App) readPurges(hash map[string]string, err error, at time.Time) {
	a.Cache.ReadEpochs(hash, err, at)
}

// backendAdmin implements the operators' actions on backends.
type backendAdmin struct{ *App }

// Drain stops new work on a backend, on every replica that can be reached.
func (o backendAdmin) Drain(ctx context.Context, name, backend, why string, d time.Duration) error {
	p := o.Pool(name)
	if p == nil || !has(p, backend) {
		return gateway.ErrUnknownBackend
	}
	err := o.Fleet.Drain(ctx, p.Name(), backend, why, d)
	if err == nil || errors.Is(err, fleet.ErrFull) {
		return err
	}
	p.Drain(backend, why, d)
	return fmt.Errorf("%w: %w", gateway.ErrNotShared, err)
}

// Undrain ends a drain.
func (o backendAdmin) Undrain(ctx context.Context, name, backend string) error {
	p := o.Pool(name)
	if p == nil {
		return gateway.ErrUnknownBackend
	}
	undone := p.Undrain(backend)
	switch err := o.Fleet.Undrain(ctx, p.Name(), backend); {
	case err == nil:
		return nil
	case undone:
		return fmt.Errorf("%w: %w", gateway.ErrNotShared, err)
	default:
		return fmt.Errorf("%s stays drained on all replicas: %w", backend, err)
	}
}

func has(p *pool.Pool, backend string) bool {
	return slices.ContainsFunc(p.Snapshot(), func(s pool.Backend) bool { return s.ID == backend })
}

// Backends returns all backends of all pools.
func (o backendAdmin) Backends() []pool.Backend {
	var out []pool.Backend
	for _, p := range o.routing.Load().pools {
		out = append(out, p.Snapshot()...)
	}
	return out
}

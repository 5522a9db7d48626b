package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	lookInterval = time.Second // between two looks at the pools
	// A pool that the configuration no longer has runs for minRetired at least, because requests that have just begun may
	// pick there a moment later, and for maxRetired at most.
	minRetired = 15 * time.Second
	maxRetired = time.Hour
)

// servedPool is a pool, from the configuration that makes it until its last request has ended.
type servedPool struct {
	*pool.Pool
	unwatch func() // ends the watching of the files of its credentials
	end     func() // ends the watching of its backends, and waits; nil: it does not run. App.reloading guards it
}

// runPools runs the pools of the configuration until ctx ends. Those of a reload are started by it.
func (a *App) runPools(ctx context.Context) error {
	a.setPoolsRun(true)
	defer a.setPoolsRun(false)
	var lives map[breaker.Key]uint64
	panics.Every(ctx, lookInterval, nil, func() {
		lives = a.tellBreakers(lives)
		a.endRetired(time.Now())
	})
	return nil
}

// setPoolsRun starts all pools, or ends them.
func (a *App) setPoolsRun(on bool) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	a.poolsRun = on
	for _, p := range slices.AppendSeq(slices.Collect(maps.Keys(a.retired)), maps.Values(a.routing.Load().pools)) {
		if on {
			a.startPool(p)
		} else {
			p.stop()
		}
	}
}

// startPool starts a pool, if the replica runs and the pool does not.
func (a *App) startPool(p *servedPool) {
	if !a.poolsRun || p.end != nil {
		return
	}
	c := &component{name: "pool " + p.Name(), run: p.Run}
	a.start(c)
	p.end = c.end
}

// stop ends the watching of the backends, if it runs.
func (p *servedPool) stop() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// endPool ends a pool that r does not have, and drops what is known of its backends, except of those that a pool with its
// name has in r.
func (a *App) endPool(r *routing, p *servedPool) {
	p.stop()
	p.unwatch()
	var ids []string
	if now := r.pool(p.Name()); now != nil {
		ids = backendIDs(now)
	}
	p.ForgetMetrics()
	a.Breakers.Retain(p.Name(), ids)
}

// endRetired ends pools that the configuration no longer has, after their last requests.
func (a *App) endRetired(now time.Time) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	r := a.routing.Load()
	for p, since := range a.retired {
		age := now.Sub(since)
		if age < minRetired || age < maxRetired && slices.ContainsFunc(p.Snapshot(), func(b pool.Backend) bool { return b.InFlight > 0 }) {
			continue
		}
		a.endPool(r, p)
		delete(a.retired, p)
		a.Logger.Info().Str("pool", p.Name()).Msg("a pool that the configuration no longer has was ended")
		a.queues.SetPools(a.queueNames(r))
	}
}

// queueNames returns the pools that requests may wait for: those of r, and those that serve their last requests.
func (a *App) queueNames(r *routing) []string {
	names := r.poolNames()
	for p := range a.retired {
		names = append(names, p.Name())
	}
	return names
}

// tellBreakers tells the breakers which backends there are, so that those of backends that discovery has dropped are
// deleted, and which have started again. It returns the lives of all backends, was those of the last call.
func (a *App) tellBreakers(was map[breaker.Key]uint64) map[breaker.Key]uint64 {
	lives := map[breaker.Key]uint64{}
	for name, p := range a.routing.Load().pools {
		for _, b := range p.Snapshot() {
			k := breaker.Key{Pool: name, Backend: b.ID}
			if lives[k] = b.Life; b.Life > was[k] {
				a.Breakers.Restarted(name, b.ID)
			}
		}
		a.Breakers.Retain(name, backendIDs(p.Pool))
	}
	return lives
}

// backendIDs returns the ids of a pool's backends.
func backendIDs(p *pool.Pool) []string {
	var ids []string
	for _, b := range p.Snapshot() {
		ids = append(ids, b.ID)
	}
	return ids
}

package app

import (
	"context"
	"slices"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/beat"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	lookInterval = time.Second // between two looks at the pools
	// A pool that the configuration no longer has runs for minRetired at least, because requests that have just begun may
	// pick there a moment later, and for maxRetired at most.
	minRetired = 15 * time.Second
	maxRetired = time.Hour
)

// servedPool is a pool, how it was configured, and its run.
type servedPool struct {
	*pool.Pool
	def config.Pool
	run *poolRun // the same in each configuration that keeps the pool
}

// poolRun is the run of a pool: from the configuration that makes it until its last request has ended. App.reloading
// guards it.
type poolRun struct {
	end     func()    // ends the watching of its backends, and waits; nil: it does not run
	unwatch func()    // ends the watching of the files of its credentials
	retired time.Time // when a configuration without it came into force
}

// runPools runs the pools of the configuration until ctx ends. Those of a reload are started by it.
func (a *App) runPools(ctx context.Context) error {
	a.setPoolsRun(true)
	defer a.setPoolsRun(false)
	tick := time.NewTimer(beat.Next(lookInterval))
	defer tick.Stop()
	var lives map[breaker.Key]uint64
	for {
		lives = a.tellBreakers(lives)
		a.endRetired(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Reset(beat.Next(lookInterval))
		}
	}
}

// setPoolsRun starts all pools, or ends them.
func (a *App) setPoolsRun(on bool) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	a.poolsRun = on
	all := slices.Clone(a.retired)
	for _, p := range a.routing.Load().pools {
		all = append(all, p)
	}
	for _, p := range all {
		if on {
			a.startPool(p)
		} else if p.run.end != nil {
			p.run.end()
			p.run.end = nil
		}
	}
}

// startPool starts a pool, if the replica runs and the pool does not.
func (a *App) startPool(p *servedPool) {
	if !a.poolsRun || p.run.end != nil {
		return
	}
	c := &component{name: "pool " + p.Name(), run: p.Run}
	a.start(c)
	p.run.end = c.end
}

// endPool ends a pool that r does not have, and drops what is known of its backends, except of those that a pool with its
// name has in r.
func (a *App) endPool(r *routing, p *servedPool) {
	if p.run.end != nil {
		p.run.end()
		p.run.end = nil
	}
	p.run.unwatch()
	var ids []string
	if now := r.pool(p.Name()); now != nil {
		ids = backendIDs(now)
	}
	p.ForgetMetrics(func(backend string) bool { return !slices.Contains(ids, backend) })
	a.Breakers.Retain(p.Name(), ids)
}

// endRetired ends pools that the configuration no longer has, after their last requests.
func (a *App) endRetired(now time.Time) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	r := a.routing.Load()
	before := len(a.retired)
	a.retired = slices.DeleteFunc(a.retired, func(p *servedPool) bool {
		age := now.Sub(p.run.retired)
		if age < minRetired || age < maxRetired && !isIdle(p.Pool) {
			return false
		}
		a.endPool(r, p)
		a.Logger.Info().Str("pool", p.Name()).Msg("a pool that the configuration no longer has was ended")
		return true
	})
	if len(a.retired) < before {
		a.queues.SetPools(a.queueNames(r))
	}
}

// queueNames returns the pools that requests may wait for: those of r, and those that serve their last requests.
func (a *App) queueNames(r *routing) []string {
	names := r.poolNames()
	for _, p := range a.retired {
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

// isIdle reports whether a pool has no request of this replica.
func isIdle(p *pool.Pool) bool {
	return !slices.ContainsFunc(p.Snapshot(), func(b pool.Backend) bool { return b.InFlight > 0 })
}

// backendIDs returns the ids of a pool's backends.
func backendIDs(p *pool.Pool) []string {
	var ids []string
	for _, b := range p.Snapshot() {
		ids = append(ids, b.ID)
	}
	return ids
}

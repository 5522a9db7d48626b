package app

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/internal/beat"
	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	lookInterval = time.Second // between two looks for pools to end
	// A pool that the configuration no longer has runs for minRetired at least, because requests that have just begun may
	// pick there a moment later, and for maxRetired at most.
	minRetired = 15 * time.Second
	maxRetired = time.Hour
)

// poolRuns are the pools that run: each from when the configuration names it until its last request has ended. Those of
// the configuration are started by a look, those of a reload before it is in force.
type poolRuns struct {
	mu      sync.Mutex
	begin   func(work ...func(context.Context) error) (end func()) // begins to run work; nil while the replica does not run
	running map[*pool.Pool]*poolRun
}

// poolRun is a pool that runs.
type poolRun struct {
	name    string
	end     func()    // ends the run and waits for it
	retired time.Time // when a look first found it without a place in the configuration; zero: it has one
}

// start starts a pool, if the replica runs and the pool does not.
func (s *poolRuns) start(name string, p *servedPool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin == nil || s.running[p.Pool] != nil {
		return
	}
	work := []func(context.Context) error{p.Run}
	end := s.begin(work...)
	s.running[p.Pool] = &poolRun{name: name, end: func() { end(); p.unwatch() }}
}

// runs reports whether a pool runs.
func (s *poolRuns) runs(p *pool.Pool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[p] != nil
}

// stop ends the run of a pool at once, and reports whether it ran.
func (s *poolRuns) stop(p *pool.Pool) bool {
	s.mu.Lock()
	run := s.running[p]
	delete(s.running, p)
	s.mu.Unlock()
	if run == nil {
		return false
	}
	run.end()
	return true
}

// retire ends the runs of pools that r no longer has, after their last requests, and returns these pools with their
// names, and the names of all that still run.
func (s *poolRuns) retire(r *routing, now time.Time) (ended map[*pool.Pool]string, running []string) {
	ended = map[*pool.Pool]string{}
	var ends []func()
	s.mu.Lock()
	for p, run := range s.running {
		if r.pool(run.name) == p {
			run.retired = time.Time{}
		} else if run.retired.IsZero() {
			run.retired = now
		}
		age := now.Sub(run.retired)
		if !run.retired.IsZero() && (age >= maxRetired || age >= minRetired && idle(p)) {
			ended[p] = run.name
			ends = append(ends, run.end)
			delete(s.running, p)
			continue
		}
		running = append(running, run.name)
	}
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return ended, running
}

// idle reports whether a pool has no request of this replica.
func idle(p *pool.Pool) bool {
	return !slices.ContainsFunc(p.Snapshot(), func(b pool.BackendState) bool { return b.InFlight > 0 })
}

// runPools runs the pools of the configuration until ctx ends.
func (a *App) runPools(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	a.runs.mu.Lock()
	a.runs.running = map[*pool.Pool]*poolRun{}
	a.runs.begin = func(work ...func(context.Context) error) func() {
		during, end := context.WithCancel(ctx)
		var own sync.WaitGroup
		for _, do := range work {
			all.Add(1)
			own.Go(func() {
				defer all.Done()
				panics.KeepRunning(during, func(ctx context.Context) { _ = do(ctx) }) // nil, or it runs already
			})
		}
		return func() { end(); own.Wait() }
	}
	a.runs.mu.Unlock()
	defer a.runs.close()
	tick := time.NewTimer(beat.Next(lookInterval))
	defer tick.Stop()
	for {
		a.lookAtPools()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Reset(beat.Next(lookInterval))
		}
	}
}

// close has no more pools started.
func (s *poolRuns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin = nil
}

// lookAtPools starts the pools that the configuration names, and forgets those that have ended.
func (a *App) lookAtPools() {
	a.reloading.Lock() // a reload starts pools before it is in force
	defer a.reloading.Unlock()
	r := a.routing.Load()
	for name, p := range r.pools {
		a.runs.start(name, p)
	}
	ended, running := a.runs.retire(r, time.Now())
	if len(ended) == 0 {
		return
	}
	for p, name := range ended {
		a.forgetPool(r, name, p)
		a.Options.Logger.Info().Str("pool", name).Msg("a pool that the configuration no longer has was ended")
	}
	a.queues.SetPools(running)
}

// forgetPool drops what is known of a pool's backends, except of those that a pool with its name has now.
func (a *App) forgetPool(r *routing, name string, p *pool.Pool) {
	var ids []string
	if now := r.pool(name); now != nil {
		for _, b := range now.Snapshot() {
			ids = append(ids, b.ID)
		}
	}
	p.ForgetMetrics(func(backend string) bool { return !slices.Contains(ids, backend) })
	a.Breakers.Retain(name, ids)
}

// queueNames returns the pools that requests may wait for: those of r, and those that still run.
func (s *poolRuns) queueNames(r *routing) []string {
	names := map[string]bool{}
	for name := range r.pools {
		names[name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.running {
		names[run.name] = true
	}
	return slices.Collect(maps.Keys(names))
}

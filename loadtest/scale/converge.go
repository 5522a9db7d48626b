package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/loadtest/process"
)

const (
	rounds          = 5 // of each change
	convergeTimeout = 30 * time.Second
	drainFor        = time.Hour
)

// Converged is how long it took until all replicas of the fleet of the check had learned of a change.
type Converged struct {
	Change string  `json:"change"`
	Rounds int     `json:"rounds"`
	Worst  float64 `json:"worst_seconds"`
	Median float64 `json:"median_seconds"`
}

// all waits until something holds for all replicas, and returns how long it took.
func all(ctx context.Context, replicas []*app.App, holds func(*app.App) bool) (time.Duration, error) {
	began := time.Now()
	err := process.Poll(ctx, convergeTimeout, func() bool {
		return !slices.ContainsFunc(replicas, func(a *app.App) bool { return !holds(a) })
	})
	return time.Since(began), err
}

// converge measures the changes, one after the other. Replicas and backends are lost.
func (g *rig) converge(ctx context.Context) (list []Converged, err error) {
	for _, c := range []struct {
		change string
		rounds int
		once   func(ctx context.Context, i int) (time.Duration, error)
	}{
		{"a live setting", rounds, g.setting},
		{"a drain of a backend", rounds, g.drain},
		{"the end of a backend's process", min(rounds, g.fleet.Backends/g.fleet.Pools-1), g.endBackend},
		{"the end of a replica without a word", min(rounds, g.fleet.Replicas-1), g.loseReplica},
	} {
		var took []time.Duration
		for i := range c.rounds {
			d, err := c.once(ctx, i)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.change, err)
			}
			took = append(took, d)
		}
		if len(took) > 0 {
			slices.Sort(took)
			list = append(list, Converged{c.change, c.rounds, took[len(took)-1].Seconds(), took[(len(took)-1)/2].Seconds()})
		}
	}
	return list, nil
}

// setting changes a live setting.
func (g *rig) setting(ctx context.Context, i int) (time.Duration, error) {
	want := time.Duration(i+2) * time.Minute
	if err := g.control.Control.HSet(ctx, "foregate:settings", "cache.ttl", want.String()).Err(); err != nil {
		return 0, err
	}
	return all(ctx, g.replicas, func(a *app.App) bool { return a.Settings.Snapshot().Global().Cache.TTL == want })
}

// drain drains a backend at one replica.
func (g *rig) drain(ctx context.Context, i int) (time.Duration, error) {
	name := g.fleet.pool(i)
	id := g.replicas[0].Backends(name)[0]
	if err := g.replicas[i%len(g.replicas)].Fleet.Drain(ctx, name, id, "scale", drainFor); err != nil {
		return 0, err
	}
	took, err := all(ctx, g.replicas, func(a *app.App) bool { return a.Pool(name).Snapshot()[0].Drained })
	if err != nil {
		return 0, err
	}
	if err := g.replicas[0].Fleet.Undrain(ctx, name, id); err != nil {
		return 0, err
	}
	_, err = all(ctx, g.replicas, func(a *app.App) bool { return !a.Pool(name).Snapshot()[0].Drained })
	return took, err
}

// endBackend closes an engine. It has been learned of when no replica would choose the backend any more.
func (g *rig) endBackend(ctx context.Context, i int) (time.Duration, error) {
	at := len(g.engines) - 1 - i*g.fleet.Pools // all of one pool
	name, url := g.fleet.pool(at), g.engines[at].URL()
	if err := g.engines[at].Close(); err != nil {
		return 0, err
	}
	return all(ctx, g.replicas, func(a *app.App) bool {
		for _, b := range a.Pool(name).Snapshot() {
			if b.URL == url {
				return b.Down || b.Open
			}
		}
		return true
	})
}

// loseReplica takes Redis from the last replica. The others have learned of it when they count one less.
func (g *rig) loseReplica(ctx context.Context, _ int) (time.Duration, error) {
	last := len(g.replicas) - 1
	g.silence[last]()
	g.replicas = g.replicas[:last]
	return all(ctx, g.replicas, func(a *app.App) bool { return len(a.Status().Replicas) == last })
}

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

const (
	idleUpstream = 4 * time.Second // for which gateways keep idle connections to backends
	leakPatience = idleUpstream + 2*time.Second
	leakSlack    = 12 // goroutines: a connection of a scrape, of a pool of Redis
	heapSlack    = 10 << 20
	freeLines    = 10
	usualQuiet   = 10
)

// footprint is what a gateway holds when nobody asks it anything.
type footprint struct {
	pid        int
	goroutines float64
	heap       float64 // bytes that live, after a collection
	lines      int
}

// footprintOf measures it; the collector runs before.
func footprintOf(ctx context.Context, g *Gateway) (footprint, error) {
	if _, err := g.Page(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return footprint{}, fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	m, err := g.Metrics(ctx)
	if err != nil {
		return footprint{}, fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	f := footprint{pid: g.PID(), lines: g.Lines()}
	f.goroutines, _ = m.Value("go_goroutines")
	f.heap, _ = m.Value("go_memstats_heap_alloc_bytes")
	return f, nil
}

// footprints measures all gateways.
func (w *Testbed) footprints(ctx context.Context) (out []footprint, err error) {
	for _, g := range w.Gateways {
		f, err := footprintOf(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// invariants checks, with no load any more, what holds in every row: processes alive,
// goroutines and heap as before the load, few log lines.
func (w *Testbed) invariants(ctx context.Context, quiet int) {
	if quiet == 0 {
		quiet = usualQuiet
	}
	for i, g := range w.Gateways {
		if g.Leaving.Load() {
			continue
		}
		if !g.Alive() {
			w.Fail("gateway %d has ended: %v", i, g.Process().Status())
			continue
		}
		was := w.base[i]
		if was.pid != g.PID() {
			continue // a new life has no baseline
		}
		if w.opts.Operations && w.Short() {
			continue // idle connections take seconds to go; the whole form and the faults wait for that
		}
		var is footprint
		var err error
		if process.Poll(ctx, w.TimerLag.Bound(leakPatience), func() bool {
			is, err = footprintOf(ctx, g)
			return err == nil && is.goroutines <= was.goroutines+leakSlack && is.heap <= was.heap+heapSlack
		}) != nil {
			w.Fail("gateway %d: goroutines %.0f, before %.0f; heap %.1f MB, before %.1f MB; %v",
				i, is.goroutines, was.goroutines, is.heap/1e6, was.heap/1e6, err)
		}
		if lines, maximum := g.Lines()-was.lines, freeLines+quiet*w.injections+w.due; lines > maximum {
			w.Fail("gateway %d logged %d lines beside access records, at most %d are due", i, lines, maximum)
		}
	}
}

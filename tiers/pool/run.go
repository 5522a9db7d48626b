package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/panics"
)

// Run scrapes, probes and discovers until ctx ends, and returns nil after all
// that it started has ended. It may run once at a time.
func (p *Pool) Run(ctx context.Context) error {
	if p.running.Swap(true) {
		return fmt.Errorf("pool %s: runs already", p.o.Name)
	}
	defer p.running.Store(false)
	defer p.scraper.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := watchers{pool: p, ends: map[*backend]func(){}}
	defer w.all.Wait()
	defer cancel()

	w.follow(ctx)
	if p.source == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(p.source.Every())
	defer ticker.Stop()
	for {
		p.discover(ctx)
		w.follow(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// watchers are the goroutines of a Run, one per backend.
type watchers struct {
	pool *Pool
	all  sync.WaitGroup
	ends map[*backend]func() // ends a watcher and waits for it
}

// follow starts watchers for new backends and ends those of backends that left.
func (w *watchers) follow(ctx context.Context) {
	set := *w.pool.set.Load()
	for b, end := range w.ends {
		if slices.Contains(set, b) {
			continue
		}
		// Only then, or the watcher might bring a series back.
		end()
		delete(w.ends, b)
		if w.pool.named(b.id) == nil { // another URL may have the id now
			w.pool.metrics.forget(w.pool.o.Name, b.id)
		}
	}
	for _, b := range set {
		if w.ends[b] == nil {
			w.start(ctx, b)
		}
	}
}

func (w *watchers) start(ctx context.Context, b *backend) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	w.ends[b] = func() { cancel(); <-ended }
	w.all.Go(func() {
		defer close(ended)
		defer cancel()
		panics.Keep(ctx, func(ctx context.Context) { w.pool.watch(ctx, b) })
	})
}

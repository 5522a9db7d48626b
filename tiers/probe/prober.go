package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
	calls "github.com/foregate/foregate/tiers/engine"
)

// Options wire a Prober.
type Options struct {
	Pools      []Pool                          // at the start; [Prober.SetPools] replaces them
	Transport  http.RoundTripper               // nil is http.DefaultTransport
	Upstream   calls.Upstream                  // continues texts, as it will for requests; nil: nobody is asked
	Timeout    time.Duration                   // how long an engine may say nothing to a question; 0 is 2 min: busy ones let it wait
	Mine       func(pool, backend string) bool // this replica asks a backend; nil: it asks all
	Ready      func() bool                     // what other replicas told was taken; nil: there is nothing to wait for
	Logger     zerolog.Logger                  // one line per change of a card
	Registerer prometheus.Registerer           // nil registers nothing
	Now        func() time.Time                // nil is time.Now
}

// Prober keeps a card of each pool. It is safe for concurrent use.
type Prober struct {
	services
	transport http.RoundTripper                 // of pools without one
	watched   atomic.Pointer[map[string]*watch] // by pool; never changed, only replaced
	changed   chan struct{}                     // SetPools was called
	running   atomic.Bool
}

// New checks the options. Nothing is asked before Run.
func New(o Options) (*Prober, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mine == nil {
		o.Mine = func(string, string) bool { return true }
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	p := &Prober{transport: o.Transport, changed: make(chan struct{}, 1), services: services{
		upstream: o.Upstream, timeout: o.Timeout, log: o.Logger, now: o.Now, pace: defaultPace, mine: o.Mine, ready: o.Ready,
	}}
	p.watched.Store(&map[string]*watch{})
	if err := p.SetPools(o.Pools); err != nil {
		return nil, err
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(&collector{p.watches, p.now}); err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
	}
	return p, nil
}

// SetPools replaces the pools that are probed. What is known of a pool stays known while its model and its priority
// stay the same; its other fields must then mean the same pool as before. An error changes nothing. Only one
// SetPools may run at a time.
func (p *Prober) SetPools(pools []Pool) error {
	was, next := *p.watched.Load(), make(map[string]*watch, len(pools))
	for _, pool := range pools {
		switch {
		case pool.Name == "":
			return errors.New("probe: a pool has no name")
		case pool.Backends == nil:
			return fmt.Errorf("probe: pool %q does not tell its backends", pool.Name)
		case next[pool.Name] != nil:
			return fmt.Errorf("probe: there are two pools %q", pool.Name)
		}
		if pool.Transport == nil {
			pool.Transport = p.transport
		}
		if next[pool.Name] = was[pool.Name]; next[pool.Name] == nil || !was[pool.Name].pool.probedAs(pool) {
			next[pool.Name] = &watch{services: &p.services, pool: pool}
		}
	}
	p.watched.Store(&next)
	select {
	case p.changed <- struct{}{}:
	default: // Run has not looked yet
	}
	return nil
}

// watches returns the watches of the pools now.
func (p *Prober) watches() map[string]*watch { return *p.watched.Load() }

// Run probes until ctx ends. Each pool has a goroutine of its own, so that one whose
// engines hang holds up no other.
func (p *Prober) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		return errors.New("probe: it runs already")
	}
	defer p.running.Store(false)
	var all sync.WaitGroup
	defer all.Wait()
	ends := map[*watch]func(){}
	for {
		now := p.watches()
		for w, end := range ends {
			if now[w.pool.Name] != w {
				end()
				delete(ends, w)
			}
		}
		for _, w := range now {
			if ends[w] == nil {
				during, end := context.WithCancel(ctx)
				ends[w] = end
				all.Go(func() { panics.KeepRunning(during, w.loop) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
	}
}

// Capabilities returns what is known of a pool's engines. nil: nothing yet, nothing of the life that
// the engine is in now, or there is no such pool; [Prober.Progress] says which. It takes no
// lock.
func (p *Prober) Capabilities(pool string) *Capabilities {
	w := p.watches()[pool]
	if w == nil {
		return nil
	}
	return w.probedCapabilities()
}

// Progress returns how far the probe of a pool's engines is.
func (p *Prober) Progress(pool string) Progress {
	if w := p.watches()[pool]; w != nil {
		if progress := w.progress.Load(); progress != nil {
			return *progress
		}
	}
	return Progress{}
}

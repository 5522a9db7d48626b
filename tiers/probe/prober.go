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

	"github.com/foregate/foregate/panics"
)

// Options wire a Prober.
type Options struct {
	Pools      []Pool
	Transport  http.RoundTripper     // nil is http.DefaultTransport
	Timeout    time.Duration         // of one question; 0 is 30 s
	Logger     zerolog.Logger        // one line per change of a card
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// probesAtOnce bounds the probes that are under way in all.
const probesAtOnce = 4

// Prober keeps a card of each pool. It is safe for concurrent use.
type Prober struct {
	services
	pools   []*watch
	byName  map[string]*watch // never changed
	running atomic.Bool
}

// New checks the options. Nothing is asked before Run.
func New(o Options) (*Prober, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Prober{byName: make(map[string]*watch, len(o.Pools)), services: services{
		timeout: o.Timeout, log: o.Logger, now: o.Now, pace: defaultPace, slots: make(chan struct{}, probesAtOnce),
	}}
	for _, pool := range o.Pools {
		switch {
		case pool.Name == "":
			return nil, errors.New("probe: a pool has no name")
		case pool.Backends == nil:
			return nil, fmt.Errorf("probe: pool %q does not tell its backends", pool.Name)
		case p.byName[pool.Name] != nil:
			return nil, fmt.Errorf("probe: there are two pools %q", pool.Name)
		}
		if pool.Transport == nil {
			pool.Transport = o.Transport
		}
		w := &watch{services: &p.services, pool: pool}
		p.pools = append(p.pools, w)
		p.byName[pool.Name] = w
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(&collector{p.pools, p.now}); err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
	}
	return p, nil
}

// Run probes until ctx ends. Each pool has a goroutine of its own, so that one whose
// engines hang holds up no other.
func (p *Prober) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		return errors.New("probe: it runs already")
	}
	defer p.running.Store(false)
	var all sync.WaitGroup
	for _, w := range p.pools {
		all.Go(func() { panics.KeepRunning(ctx, w.run) })
	}
	all.Wait()
	<-ctx.Done() // where there is no pool to be asked
	return nil
}

// Capabilities returns what is known of a pool's engines. nil: nothing yet, nothing of the life that
// the engine is in now, or there is no such pool; [Prober.Failed] says which. It takes no
// lock.
func (p *Prober) Capabilities(pool string) *Capabilities {
	w := p.byName[pool]
	if w == nil {
		return nil
	}
	return w.probedCapabilities()
}

// Failed returns why the last probe of a pool brought nothing, or not all; "" is: it did, or
// there was none.
func (p *Prober) Failed(pool string) string {
	w := p.byName[pool]
	if w == nil {
		return ""
	}
	if c := w.capabilities.Load(); c != nil {
		return c.Failed
	}
	return ""
}

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

// Pool is one to probe.
type Pool struct {
	Name, Model string
	// Backends are those that there are now. It is asked once a second.
	Backends func() []Backend
	// Priority is what its engines are told where they schedule by priority: a late one. nil:
	// they do not, and refuse a request that has one.
	Priority *int64
	// Spare reports whether its engines may be asked to score now: they have room, and none
	// has died of it a moment ago. nil: always.
	Spare func() bool
}

// Backend is one of a pool's.
type Backend struct {
	ID, URL string
	Up      bool
	Life    uint64 // another one than before: the engine was restarted
}

// pace is how often is asked.
type pace struct {
	look, models     time.Duration // at the backends, at the model's card
	again            time.Duration // a whole probe
	least, most      time.Duration // after one that failed: doubling
	part             time.Duration // after one that brought not all: doubling, to again at most
	closed, shutMost time.Duration // scoring that ended the engine: doubling
}

// defaultPace is that of a Prober.
var defaultPace = pace{
	look: time.Second, models: 15 * time.Second, again: 15 * time.Minute,
	least: time.Second, most: time.Minute, part: 10 * time.Second, closed: 5 * time.Minute, shutMost: time.Hour,
}

const (
	// probesAtOnce bounds the probes that are under way in all.
	probesAtOnce = 4
	// probeMost bounds one probe; a slow engine takes some 30 s.
	probeMost = 3 * time.Minute
	// cardMost bounds a look at the model's card.
	cardMost = 2 * time.Second
)

// Prober keeps a card of each pool. It is safe for concurrent use.
type Prober struct {
	pools     []*watch
	byName    map[string]*watch // never changed
	transport http.RoundTripper
	timeout   time.Duration
	log       zerolog.Logger
	now       func() time.Time
	pace      pace
	slots     chan struct{} // one per probe under way
	running   atomic.Bool
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
	p := &Prober{
		byName: make(map[string]*watch, len(o.Pools)), transport: o.Transport, timeout: o.Timeout,
		log: o.Logger, now: o.Now, pace: defaultPace, slots: make(chan struct{}, probesAtOnce),
	}
	for _, pool := range o.Pools {
		switch {
		case pool.Name == "":
			return nil, errors.New("probe: a pool has no name")
		case pool.Backends == nil:
			return nil, fmt.Errorf("probe: pool %q does not tell its backends", pool.Name)
		case p.byName[pool.Name] != nil:
			return nil, fmt.Errorf("probe: there are two pools %q", pool.Name)
		}
		w := &watch{prober: p, pool: pool}
		p.pools = append(p.pools, w)
		p.byName[pool.Name] = w
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(&collector{p}); err != nil {
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
		all.Go(func() { panics.Keep(ctx, w.run) })
	}
	all.Wait()
	<-ctx.Done() // where there is no pool to be asked
	return nil
}

// Card returns what is known of a pool's engines. nil: nothing yet, nothing of the life that
// the engine is in now, or there is no such pool; [Prober.Failed] says which. It takes no
// lock.
func (p *Prober) Card(pool string) *Card {
	w := p.byName[pool]
	if w == nil {
		return nil
	}
	return w.known()
}

// Failed returns why the last probe of a pool brought nothing, or not all; "" is: it did, or
// there was none.
func (p *Prober) Failed(pool string) string {
	w := p.byName[pool]
	if w == nil {
		return ""
	}
	if c := w.card.Load(); c != nil {
		return c.Failed
	}
	return ""
}

// Package pool knows the backends that serve one model: which there are, which
// are up, how loaded they are, and which one a request should go to.
//
// Start at [New], [Pool.Run] and [Pool.Pick]. The choice itself is [choose.Choose], a
// pure function; Pool gathers the values it judges. A backend that refuses a
// connection is out at once and comes back when a probe finds it. One that answers
// nothing for a second, or makes no steps though it has work, is suspect: it gets
// requests only where no other is left, and those under way there move. After two
// silent seconds it is out. One whose metrics cannot be read, or
// cannot be true, stays in with an unknown reading, which counts as neither idle nor
// full.
package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/panics"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Options wires a Pool. Either Backends or Discover is set.
type Options struct {
	Name       string
	Model      string
	Backends   []string // base URLs
	Discover   string   // where the backends are found instead, see [discover.New]
	USDPerHour float64  // of one backend
	Priorities bool     // its engines schedule by the priority that a request has (vLLM's --scheduling-policy priority)

	Config   func() choose.Config   // live; nil is choose.DefaultConfig
	Pressure func() pressure.Config // live; nil is pressure.DefaultConfig

	// Open is the breaker's view: true means do not pick. It is asked once per
	// backend and pick, so it must be cheap; nil is never open.
	Open func(backend string) bool
	// Shut is Open without what is kept open for want of others; nil is Open.
	Shut func(backend string) bool
	// Ramp is the share of its turns, 0..1, that a backend may take by the breaker's word,
	// beside its own after a start. It is asked as often as Open; nil is always 1.
	Ramp func(backend string) float64

	Replicas   func() int        // how many replicas there are, this one included; nil is 1
	Index      Index             // nil: what is warm is estimated
	Resolver   discover.Resolver // nil is net.DefaultResolver
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing; pools may share one
	Now        func() time.Time      // nil is time.Now
}

// Pool is a set of backends that serve one model. It is safe for concurrent use.
type Pool struct {
	name, model string
	usdPerHour  float64
	priorities  bool
	config      func() choose.Config
	pressure    func() pressure.Config
	open, shut  func(string) bool
	ramp        func(string) float64
	fleet       Fleet
	replicas    func() int
	room        func() // called when there may be more room than before; may be nil
	index       Index
	now         func() time.Time
	log         zerolog.Logger
	metrics     *metrics
	score       prometheus.Observer
	prevented   prometheus.Counter
	scraper     *pressure.Scraper
	source      discover.Source // nil: the set is fixed
	found       found
	slots       chan struct{} // one per scrape under way
	running     atomic.Bool

	set     atomic.Pointer[[]*backend] // never changed, only replaced
	scratch sync.Pool                  // of *round, so that a pick need not allocate it

	mu          sync.Mutex // guards the backends' state and what follows
	turn        uint64
	byID        map[string]*backend
	numbered    []*backend        // by number in warm; nil: gone
	fleetDrains map[string]string // by id: why; never changed, only replaced
	ownDrains   map[string]order  // by id: what only this replica was told
	warm        *prefix.Table
	told        []prefix.Placement // memory of one pick
	length      density
	meanPrompt  float64 // moving average of what was to be computed of the prompts picked for
	outputs     outputs
	inUse       float64 // moving share of warm prompts whose prefix another request of ours was using
	freed       flow    // tokens that ended requests have freed
	units       unitCosts
	mean        mean
	meanAt      time.Time
}

// New checks the options and returns a Pool that may be picked from at once;
// readings, discovery and recovery need Run. Until discovery has answered, a
// discovered pool has no backends.
func New(o Options) (*Pool, error) {
	urls, source, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", o.Name, err)
	}
	o = o.withDefaults()
	p := &Pool{
		name: o.Name, model: o.Model, usdPerHour: o.USDPerHour, priorities: o.Priorities,
		config: o.Config, pressure: o.Pressure, open: o.Open, shut: o.Shut, ramp: o.Ramp, replicas: o.Replicas, index: o.Index, now: o.Now,
		log:     o.Logger.With().Str("pool", o.Name).Logger(),
		metrics: newMetrics(o.Registerer),
		scraper: pressure.NewScraper(pressure.Options{Config: o.Pressure, Now: o.Now}),
		source:  source, found: newFound(o.Discover),
		slots:      make(chan struct{}, scrapesAtOnce),
		scratch:    sync.Pool{New: func() any { return new(round) }},
		warm:       prefix.NewTable(mostParts),
		byID:       map[string]*backend{},
		ownDrains:  map[string]order{},
		meanPrompt: meanPromptDefault,
		outputs:    newOutputs(),
	}
	p.score = p.metrics.score.WithLabelValues(p.name)
	p.prevented = p.metrics.prevented.WithLabelValues(p.name)
	p.set.Store(&[]*backend{})
	p.replace(urls)
	return p, nil
}

// validate refuses what would go wrong later and returns the backends' URLs in
// their one spelling, or where they are found.
func (o Options) validate() ([]string, discover.Source, error) {
	switch {
	case o.Name == "":
		return nil, nil, errors.New("has no name")
	case len(o.Backends) > 0 && o.Discover != "":
		return nil, nil, fmt.Errorf("has both backends and discover %q", o.Discover)
	case len(o.Backends) == 0 && o.Discover == "":
		return nil, nil, errors.New("has neither backends nor discover")
	case o.USDPerHour < 0 || math.IsNaN(o.USDPerHour) || math.IsInf(o.USDPerHour, 0):
		return nil, nil, fmt.Errorf("costs %v USD per hour", o.USDPerHour)
	}
	if o.Discover != "" {
		source, err := discover.New(o.Discover, o.Resolver)
		if err != nil {
			return nil, nil, fmt.Errorf("discover %q: %w", o.Discover, err)
		}
		return nil, source, nil
	}
	var urls []string
	for _, raw := range o.Backends {
		u, err := discover.URL(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("backend %q: %w", raw, err)
		}
		if slices.Contains(urls, u) {
			return nil, nil, fmt.Errorf("backend %q: given twice", raw)
		}
		urls = append(urls, u)
	}
	return urls, nil, nil
}

func (o Options) withDefaults() Options {
	if o.Config == nil {
		o.Config = choose.DefaultConfig
	}
	if o.Pressure == nil {
		o.Pressure = pressure.DefaultConfig
	}
	if o.Open == nil {
		o.Open = func(string) bool { return false }
	}
	if o.Shut == nil {
		o.Shut = o.Open
	}
	if o.Ramp == nil {
		o.Ramp = func(string) float64 { return 1 }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// locked runs f with the lock. A panic of f's leaves the pool unlocked.
func (p *Pool) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// OnRoom has f called whenever a backend may have more room than before: a request
// ended, or a reading came. It is set before the first pick. f is called without the
// pool's locks, often, and must be quick.
func (p *Pool) OnRoom(f func()) { p.room = f }

// moreRoom says that somebody who waits may try again.
func (p *Pool) moreRoom() {
	if p.room != nil {
		p.room()
	}
}

// Model is the model that the pool's backends serve.
func (p *Pool) Model() string { return p.model }

// USDPerHour is what one backend of the pool costs.
func (p *Pool) USDPerHour() float64 { return p.usdPerHour }

// Priorities reports whether the pool's engines schedule by priority, and take a request
// that has one.
func (p *Pool) Priorities() bool { return p.priorities }

// Run scrapes, probes and discovers until ctx ends, and returns nil after all
// that it started has ended. It may run once at a time.
func (p *Pool) Run(ctx context.Context) error {
	if p.running.Swap(true) {
		return fmt.Errorf("pool %s: runs already", p.name)
	}
	defer p.running.Store(false)
	defer p.scraper.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := watchers{pool: p, ends: map[*backend]func(){}}
	defer w.wait()
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
		if !w.pool.has(b.id) { // another URL may have the id now
			w.pool.metrics.forget(w.pool.name, b.id)
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

func (w *watchers) wait() { w.all.Wait() }

package probe

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
)

// Options wire a Prober.
type Options struct {
	Pools      []Pool                          // at the start; [Prober.SetPools] replaces them
	Upstream   engine.Upstream                 // asks, as it will for requests
	Mine       func(pool, backend string) bool // this replica asks a backend
	Ready      func() bool                     // what other replicas told was taken
	Logger     zerolog.Logger                  // one line per change of a card
	Registerer prometheus.Registerer           // nil registers nothing
}

// Pool is one to probe.
type Pool struct {
	Name, Model string
	// Backends are those that there are now. It is asked once a second.
	Backends    func() []Backend
	Credentials func() *credentials.Credentials // that it shows to its engines
	// Ended is told how each question ended.
	Ended func(backend string, err error)
	// Priority is what its engines are told where they schedule by priority: a late one. nil:
	// they do not, and refuse a request that has one.
	Priority *int64
	// MayScore reports by an error that a backend may not be asked to score so many tokens now, or how to tell what came of it.
	MayScore func(backend string, tokens int) (leave func(error), err error)
}

// probedAs reports whether what a probe tells of p holds for q, too.
func (p Pool) probedAs(q Pool) bool {
	same := p.Priority == nil && q.Priority == nil || p.Priority != nil && q.Priority != nil && *p.Priority == *q.Priority
	return p.Model == q.Model && same
}

// Backend is one of a pool's.
type Backend struct {
	ID, URL string
	Engine  dialect.Kind // "" is not known yet
	Up      bool
	Life    uint64 // another one than before: the engine was restarted
}

// like reports whether the engines of b and c are of the same kind.
func (b Backend) like(c Backend) bool { return dialect.Of(b.Engine) == dialect.Of(c.Engine) }

// pace is how often is asked.
type pace struct {
	silence            time.Duration // that an engine may keep to a question: busy ones let it wait
	look, models       time.Duration // at the backends, at the model's card
	minRetry, maxRetry time.Duration // after a round that left a question open: doubling
	told               time.Duration // after which what is known is told again
}

// defaultPace is that of a Prober.
var defaultPace = pace{
	silence: 2 * time.Minute, look: time.Second, models: 15 * time.Second, minRetry: time.Second, maxRetry: time.Minute, told: 20 * time.Second,
}

// Prober keeps a card of each pool. It is safe for concurrent use.
type Prober struct {
	Options
	pace    pace
	watched atomic.Pointer[map[string]*watch] // by pool; never changed, only replaced
	changed chan struct{}                     // SetPools was called
}

// New returns a Prober that asks nothing before Run.
func New(o Options) (*Prober, error) {
	p := &Prober{Options: o, pace: defaultPace, changed: make(chan struct{}, 1)}
	p.watched.Store(&map[string]*watch{})
	p.SetPools(o.Pools)
	if o.Registerer != nil {
		if err := o.Registerer.Register(collector{p}); err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
	}
	return p, nil
}

// SetPools replaces the pools that are probed, whose names differ. What is known of a pool stays known while its model and its
// priority stay the same; its other fields must then mean the same pool as before. Only one SetPools may run at a time.
func (p *Prober) SetPools(pools []Pool) {
	was, next := *p.watched.Load(), make(map[string]*watch, len(pools))
	for _, pool := range pools {
		if next[pool.Name] = was[pool.Name]; next[pool.Name] == nil || !was[pool.Name].pool.probedAs(pool) {
			next[pool.Name] = &watch{prober: p, pool: pool}
		}
	}
	p.watched.Store(&next)
	select {
	case p.changed <- struct{}{}:
	default: // Run has not looked yet
	}
}

// watches returns the watches of the pools now.
func (p *Prober) watches() map[string]*watch { return *p.watched.Load() }

// Run probes until ctx ends. Each pool has a goroutine of its own, so that one whose
// engines hang holds up no other.
func (p *Prober) Run(ctx context.Context) error {
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

// Capabilities returns what is known of a pool's engines. nil: not all yet, nothing of the life that the engine is in now, or there
// is no such pool; [Prober.Progress] says which. It takes no lock.
func (p *Prober) Capabilities(pool string) *Capabilities {
	w := p.watches()[pool]
	if w == nil {
		return nil
	}
	return w.capabilities.Load()
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

// collector shows the cards as they are when they are asked for: labels are the pools of
// the configuration and closed sets.
type collector struct{ *Prober }

var (
	missingDesc = prometheus.NewDesc("foregate_probe_missing",
		"1 where the pool's engines lack it, or were not probed yet; 0 where they have it.", []string{"pool", "capability"}, nil)
	ageDesc = prometheus.NewDesc("foregate_probe_age_seconds",
		"Time since the pool's engines were last probed with success; absent before.", []string{"pool"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- missingDesc
	ch <- ageDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for name, w := range c.watches() {
		capabilities := w.capabilities.Load()
		for _, what := range CapabilityNames {
			missing := 0.0
			if capabilities.MissingReason(what) != "" {
				missing = 1
			}
			ch <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, missing, name, what)
		}
		if capabilities != nil {
			ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, time.Since(capabilities.At).Seconds(), name)
		}
	}
}

package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// maxPrefixes bounds the prefixes that a pool remembers: about 4 MB with a few backends each.
const maxPrefixes = 1 << 14

// New checks the options and returns a Pool. Picks work at once; readings, discovery and recovery need Run. A discovered
// pool has no backends until discovery has answered.
func New(o Options) (*Pool, error) {
	urls, source, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", o.Name, err)
	}
	o = o.withDefaults()
	p := &Pool{
		o:          o,
		log:        o.Logger.With().Str("pool", o.Name).Logger(),
		metrics:    newMetrics(o.Registerer),
		scraper:    pressure.NewScraper(o.ScrapeTimeout, o.Credentials),
		source:     source,
		scratch:    sync.Pool{New: func() any { return new(round) }},
		scrapes:    make(chan struct{}, maxScrapes),
		warm:       prefix.NewTable(maxPrefixes),
		byID:       map[string]*backend{},
		changed:    make(chan struct{}, 1),
		price:      o.Price,
		meanPrompt: estimate.DefaultPrompt,
		outputs:    estimate.NewOutputs(),
	}
	p.score = p.metrics.score.WithLabelValues(p.o.Name)
	p.prevented = p.metrics.prevented.WithLabelValues(p.o.Name)
	p.set.Store(&[]*backend{})
	p.replace(urls)
	p.metrics.states.join(p)
	return p, nil
}

// Run scrapes, probes and discovers until ctx ends. It returns nil after all its goroutines have ended. Only one Run may
// be active.
func (p *Pool) Run(ctx context.Context) error {
	defer p.scraper.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := watchers{pool: p, ends: map[*backend]context.CancelFunc{}}
	defer w.all.Wait()
	defer cancel() // also after a panic, which would wait for the watchers
	var again <-chan time.Time
	if p.source != nil {
		ticker := time.NewTicker(discover.Every)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		if p.source != nil {
			p.discover(ctx)
		}
		w.follow(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-p.changed:
		}
	}
}

// watchers are the goroutines of a Run, one per backend.
type watchers struct {
	pool *Pool
	all  sync.WaitGroup
	ends map[*backend]context.CancelFunc
}

// follow starts watchers for new backends and stops those of removed ones.
func (w *watchers) follow(ctx context.Context) {
	set := *w.pool.set.Load()
	for b, end := range w.ends {
		if !slices.Contains(set, b) {
			end()
			delete(w.ends, b)
		}
	}
	if w.pool.o.External {
		return
	}
	for _, b := range set {
		if w.ends[b] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w.ends[b] = cancel
		w.all.Go(func() {
			defer cancel()
			panics.KeepRunning(ctx, func(ctx context.Context) { w.pool.watch(ctx, b) })
		})
	}
}

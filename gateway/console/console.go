// Package console serves the built-in pages of the admin listener: static files, and live data of this
// replica (in the demo: of all replicas). It imports nothing else of Foregate. Live data come from the
// metrics that Prometheus scrapes, so that a page and a dashboard cannot disagree. The pages request
// everything else from the admin listener's other paths. One goroutine gathers for all readers: see
// [Console.Run].
package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultInterval = 2 * time.Second
	// gatherShare bounds the processor time for gathering: the pause is this many times the duration of the
	// fastest of the last few. Slower ones may have waited for a processor.
	gatherShare    = 200
	lastFew        = 4
	maxPause       = 8 * time.Second // pages show a replica as silent after ten seconds (assets/live.js)
	maxSamples     = 300             // ten minutes of samples
	rateSpan       = 10 * time.Second
	ratioSpan      = 30 * time.Second
	maxSubscribers = 64
	maxBehind      = 8 // samples that a reader may lag behind before it is disconnected
	writeTime      = 10 * time.Second
)

// Options configure a console.
type Options struct {
	Gatherer prometheus.Gatherer
	State    func() ReplicaState // nil: unknown; safe for concurrent use
	Interval time.Duration       // between two samples; 0 is two seconds
	Now      func() time.Time    // nil is time.Now
}

// ReplicaState is the state that no metric shows.
type ReplicaState struct {
	Replicas       int                // live replicas
	ShedThresholds map[string]float64 // KV usage above which a class is shed, by class
}

// Console keeps the samples of the last ten minutes, and sends them and new ones to any number of pages.
type Console struct {
	opts Options

	mu          sync.Mutex
	counts      []counts // the last ratioSpan, oldest first
	samples     [][]byte // encoded, oldest first
	subscribers map[chan []byte]struct{}

	opened chan struct{} // a page was opened: gather now
}

// New makes a console; gathering starts with Run.
func New(o Options) *Console {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.State == nil {
		o.State = func() ReplicaState { return ReplicaState{} }
	}
	return &Console{opts: o, subscribers: map[chan []byte]struct{}{}, opened: make(chan struct{}, 1)}
}

// Run gathers until ctx ends: every two seconds, or less often, down to every eight seconds, if no page is open, or if it
// would take more than 0.5 % of a processor.
func (c *Console) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	var took [lastFew]time.Duration
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		case <-c.opened:
		}
		began := time.Now()
		c.take()
		took[n%lastFew] = time.Since(began)
		pause := max(c.opts.Interval, min(maxPause, gatherShare*slices.Min(took[:min(n+1, lastFew)])))
		if !c.isRead() {
			pause = max(pause, maxPause)
		}
		next.Reset(pause)
	}
}

// isRead reports whether a page is open.
func (c *Console) isRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subscribers) > 0
}

// take gathers one sample and sends it to the readers. Families that cannot be gathered are left out.
func (c *Console) take() {
	families, _ := c.opts.Gatherer.Gather()
	now := count(families, c.opts.Now())
	facts := c.opts.State()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = append(c.counts, now)
	for len(c.counts) > 2 && now.at.Sub(c.counts[1].at) >= ratioSpan {
		c.counts = c.counts[1:]
	}
	line := encode(sampleOf(c.counts, facts))
	if len(c.samples) == maxSamples {
		c.samples = append(c.samples[:0], c.samples[1:]...)
	}
	c.samples = append(c.samples, line)
	for tab := range c.subscribers {
		select {
		case tab <- line:
		default: // it does not read; its connection is closed, and a page reconnects by itself
			delete(c.subscribers, tab)
			close(tab)
		}
	}
}

// Handler serves the pages and /console/live.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/live", c.live)
	mux.Handle("GET /console/", pages())
	return mux
}

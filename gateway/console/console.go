// Package console serves the built-in pages of the admin listener: static files, and samples of this replica (in the
// demo: of all replicas). It imports nothing else of Foregate. Samples are computed from the metrics that Prometheus
// scrapes, so that a page and a dashboard cannot disagree. The pages request everything else from the admin listener's
// other paths.
package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// minPause is the least time between two samples: a little less than that between two questions of a page.
	minPause = 1500 * time.Millisecond
	maxPause = 8 * time.Second // while no page asks
	// gatherShare bounds the processor time for gathering: the pause is this many times the duration of the
	// fastest of the last few. Slower ones may have waited for a processor.
	gatherShare = 200
	lastFew     = 4
	kept        = 10 * time.Minute // of samples
	rateSpan    = 10 * time.Second
	ratioSpan   = 30 * time.Second
)

// Options configure a console.
type Options struct {
	Gatherer prometheus.Gatherer
	State    func() ReplicaState // safe for concurrent use
}

// ReplicaState is the state that no metric shows.
type ReplicaState struct {
	Replicas       int                // live replicas
	ShedThresholds map[string]float64 // KV usage above which a class is shed, by class
}

// Console keeps the samples of the last ten minutes for any number of pages.
type Console struct {
	opts Options

	mu      sync.Mutex
	counts  []counts // the last ratioSpan, oldest first
	samples []Sample // oldest first
	took    []time.Duration
}

// New makes a console.
func New(o Options) *Console { return &Console{opts: o} }

// Run takes a sample every eight seconds until ctx ends. While a page is open, its questions take more of them.
func (c *Console) Run(ctx context.Context) error {
	tick := time.NewTicker(maxPause)
	defer tick.Stop()
	for {
		c.since(time.Now(), 0)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Handler serves the pages and /console/live.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/live", func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.ParseFloat(r.FormValue("after"), 64)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(c.since(time.Now(), after)) // the page may have left
	})
	mux.Handle("GET /console/", pages())
	return mux
}

// since returns the samples that were taken after a time in Unix seconds, the oldest first. It takes a sample before, if the
// last one is old enough.
func (c *Console) since(now time.Time, after float64) []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := minPause
	if len(c.took) > 0 {
		pause = max(minPause, min(maxPause, gatherShare*slices.Min(c.took)))
	}
	if n := len(c.counts); n == 0 || now.Sub(c.counts[n-1].at) >= pause {
		c.take(now)
	}
	i := len(c.samples)
	for i > 0 && c.samples[i-1].Time > after {
		i--
	}
	return append([]Sample{}, c.samples[i:]...)
}

// take takes a sample. Families that cannot be gathered are left out.
func (c *Console) take(now time.Time) {
	began := time.Now()
	families, _ := c.opts.Gatherer.Gather()
	c.counts = append(c.counts, count(families, now))
	for len(c.counts) > 2 && now.Sub(c.counts[1].at) >= ratioSpan {
		c.counts = c.counts[1:]
	}
	c.samples = append(c.samples, sampleOf(c.counts, c.opts.State()))
	for c.samples[0].Time < unixSeconds(now.Add(-kept)) {
		c.samples = c.samples[1:]
	}
	c.took = append(c.took, time.Since(began))
	c.took = c.took[max(0, len(c.took)-lastFew):]
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

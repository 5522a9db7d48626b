package cache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/internal/recent"
)

// Why an existing value is ignored, a closed set.
const (
	refusedDamaged = "damaged" // it cannot be opened: changed, cut, another request's
	refusedForeign = "foreign" // another version's, or sealed with an unknown key
	refusedLarge   = "large"   // larger than the limit
	refusedType    = "type"    // not a string
	refusedEpochs  = "epochs"  // not an entry: the hash of purges
)

// Why an entry is not stored, a closed set.
const (
	droppedQueue   = "queue"   // too much waits to be written
	droppedAway    = "away"    // Redis is not asked now, after failures
	droppedFull    = "full"    // Redis is full and evicts nothing
	droppedLarge   = "large"   // larger than cache.max_entry_bytes
	droppedUnsound = "unsound" // a number or a string is out of range
	droppedError   = "error"   // Redis refused it, or answered late
	droppedStopped = "stopped" // this replica stops
)

// The results, in the order of their counters.
var results = [...]Result{ResultHit, ResultLocal, ResultCoalesced, ResultMiss, ResultAway, ResultLate, ResultError, ResultBypass}

const (
	// Maximum numbers of label values; the rest is counted together as others.
	maxRoutes  = 256
	maxTenants = 100
	others     = "other"
)

// metrics are the counts. Those by route and tenant are kept here and collected on demand, because
// [Store.Stats] returns them, too.
type metrics struct {
	lookup           prometheus.Histogram
	read, written    prometheus.Counter
	refused, dropped *reasons

	mu      sync.Mutex
	routes  map[string]*routeCount
	tenants map[string]*[len(results)]uint64
}

// routeCount holds the counts of one route.
type routeCount struct {
	requests           [len(results)]uint64
	prompt, completion uint64 // tokens
	usd                float64
	ratio              recent.Ratio // served requests ÷ all requests
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	f := promauto.With(reg)
	bytes := f.NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_cache_bytes_total", Help: "Bytes of sealed answers that were read from Redis and written to it.",
	}, []string{"direction"})
	m := &metrics{
		lookup: f.NewHistogram(prometheus.HistogramOpts{
			Name: "foregate_cache_lookup_seconds", Help: "Seconds that requests waited for Redis to look an answer up.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .025, .05, .1},
		}),
		read: bytes.WithLabelValues("read"), written: bytes.WithLabelValues("written"),
		refused: newReasons(f, prometheus.CounterOpts{
			Name: "foregate_cache_refused_total", Help: "Values in Redis that were passed over, by why.",
		}, refusedDamaged, refusedForeign, refusedLarge, refusedType, refusedEpochs),
		dropped: newReasons(f, prometheus.CounterOpts{
			Name: "foregate_cache_dropped_total", Help: "Answers that were to be kept and are not, by why.",
		}, droppedQueue, droppedAway, droppedFull, droppedLarge, droppedUnsound, droppedError, droppedStopped),
		routes: map[string]*routeCount{}, tenants: map[string]*[len(results)]uint64{},
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_cache_local_bytes", Help: "Bytes of the copies of answers in this process.",
	}, func() float64 { _, bytes := s.local.holds(); return float64(bytes) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_cache_local_entries", Help: "Copies of answers in this process.",
	}, func() float64 { n, _ := s.local.holds(); return float64(n) })
	if reg != nil {
		reg.MustRegister(collector{m, s.now})
	}
	return m
}

// reasons counts by reason, a closed set.
type reasons struct {
	names  []string
	counts []atomic.Uint64
}

func newReasons(f promauto.Factory, o prometheus.CounterOpts, names ...string) *reasons {
	r := &reasons{names: names, counts: make([]atomic.Uint64, len(names))}
	for i, name := range names {
		own := o
		own.ConstLabels = prometheus.Labels{"reason": name}
		f.NewCounterFunc(own, func() float64 { return float64(r.counts[i].Load()) })
	}
	return r
}

func (r *reasons) add(name string) { r.counts[slices.Index(r.names, name)].Add(1) }

func (r *reasons) all() map[string]uint64 {
	out := make(map[string]uint64, len(r.names))
	for i, name := range r.names {
		out[name] = r.counts[i].Load()
	}
	return out
}

// labelled returns the counts of a name, or those of others if there are too many names.
func labelled[T any](all map[string]*T, name string, maxSize int) *T {
	if c, ok := all[name]; ok {
		return c
	}
	if len(all) >= maxSize || !utf8.ValidString(name) { // invalid as a label
		name = others
	}
	c, ok := all[name]
	if !ok {
		c = new(T)
		all[name] = c
	}
	return c
}

// count counts one request.
func (m *metrics) count(route, tenant string, r Result, e *Entry, now time.Time) {
	i := slices.Index(results[:], r)
	if i < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	labelled(m.tenants, tenant, maxTenants)[i]++
	c := labelled(m.routes, route, maxRoutes)
	c.requests[i]++
	if r != ResultBypass {
		served := uint64(0)
		if r == ResultHit || r == ResultLocal || r == ResultCoalesced {
			served = 1
		}
		c.ratio.Add(now, served, 1)
	}
	if e != nil {
		c.prompt += uint64(max(e.Prompt, 0))
		c.completion += uint64(max(e.Accepted, 0)) + uint64(max(e.Target, 0))
		if e.USD > 0 { // false for NaN
			c.usd += e.USD
		}
	}
}

// stats returns the counts by route.
func (m *metrics) stats(now time.Time) []RouteStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]RouteStats, 0, len(m.routes))
	for _, name := range slices.Sorted(maps.Keys(m.routes)) {
		c := m.routes[name]
		ratio, _ := c.ratio.Value(now)
		r := RouteStats{
			Route: name, Requests: make(map[Result]uint64, len(results)),
			HitRatio: ratio, SavedTokens: c.prompt + c.completion, SavedUSD: c.usd,
		}
		for i, result := range results {
			r.Requests[result] = c.requests[i]
		}
		out = append(out, r)
	}
	return out
}

package cache

import (
	"slices"
	"sync"
	"time"

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

// Metrics by route.
var (
	descRequests = prometheus.NewDesc("llm_cache_requests_total",
		"Requests by what came of their lookup: hit, local and coalesced were served from the cache, bypass did not ask.", []string{"route", "result"}, nil)
	descRatio = prometheus.NewDesc("llm_cache_hit_ratio",
		"Share of the requests of the last five minutes that were served from the cache, of those that asked; 0 where none did.", []string{"route"}, nil)
	descTokens = prometheus.NewDesc("foregate_cache_saved_tokens_total",
		"Tokens of answers that were served without a generation.", []string{"route", "kind"}, nil)
	descUSD = prometheus.NewDesc("foregate_cache_saved_usd_total",
		"What the answers that were served without a generation had cost to make, in US dollars.", []string{"route"}, nil)
)

// metrics are the counts. Those by route are kept here and collected on demand, because [Store.Totals] returns
// them, too.
type metrics struct {
	lookup           prometheus.Histogram
	refused, dropped *prometheus.CounterVec // by reason
	now              func() time.Time

	mu     sync.Mutex
	routes map[string]*routeCount
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
	m := &metrics{
		lookup: f.NewHistogram(prometheus.HistogramOpts{
			Name: "foregate_cache_lookup_seconds", Help: "Seconds that requests waited for Redis to look an answer up.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .025, .05, .1},
		}),
		refused: newReasons(f, prometheus.CounterOpts{
			Name: "foregate_cache_refused_total", Help: "Values in Redis that were passed over, by why.",
		}, refusedDamaged, refusedForeign, refusedLarge, refusedType, refusedEpochs),
		dropped: newReasons(f, prometheus.CounterOpts{
			Name: "foregate_cache_dropped_total", Help: "Answers that were to be kept and are not, by why.",
		}, droppedQueue, droppedAway, droppedFull, droppedLarge, droppedUnsound, droppedError, droppedStopped),
		now: s.now, routes: map[string]*routeCount{},
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_cache_local_bytes", Help: "Bytes of the copies of answers in this process.",
	}, func() float64 { return float64(s.local.held()) })
	if reg != nil {
		reg.MustRegister(m)
	}
	return m
}

// newReasons counts by reason, a closed set.
func newReasons(f promauto.Factory, o prometheus.CounterOpts, names ...string) *prometheus.CounterVec {
	by := f.NewCounterVec(o, []string{"reason"})
	for _, name := range names {
		by.WithLabelValues(name)
	}
	return by
}

// count counts one request of a configured route.
func (m *metrics) count(route string, r Result, e *Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.routes[route]
	if c == nil {
		c = &routeCount{}
		m.routes[route] = c
	}
	c.requests[slices.Index(results[:], r)]++
	if r != ResultBypass {
		served := uint64(0)
		if r.served() {
			served = 1
		}
		c.ratio.Add(m.now(), served, 1)
	}
	if e != nil {
		c.prompt += uint64(max(e.Prompt, 0))
		c.completion += uint64(max(e.Accepted, 0) + max(e.Target, 0))
		c.usd += max(e.USD, 0)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descRatio, descTokens, descUSD} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, made := range m.gather() {
		out <- made
	}
}

// gather makes the metrics under the lock, which the scraper must not hold.
func (m *metrics) gather() (all []prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...))
	}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, r := range m.routes {
		for i, result := range results {
			counter(descRequests, float64(r.requests[i]), name, string(result))
		}
		ratio, _ := r.ratio.Value(now) // 0 without requests
		all = append(all, prometheus.MustNewConstMetric(descRatio, prometheus.GaugeValue, ratio, name))
		counter(descTokens, float64(r.prompt), name, "prompt")
		counter(descTokens, float64(r.completion), name, "completion")
		counter(descUSD, r.usd, name)
	}
	return all
}

// totals sums over the routes.
func (m *metrics) totals() (sum Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.routes {
		for i, result := range results {
			if result != ResultBypass {
				sum.Requests += c.requests[i]
			}
			if result.served() {
				sum.Served += c.requests[i]
			}
		}
		sum.SavedTokens += c.prompt + c.completion
		sum.SavedUSD += c.usd
	}
	return sum
}

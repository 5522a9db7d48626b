package cache

import (
	"cmp"
	"sync"

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
	refusedEpochs  = "epochs"  // not an entry: a purge
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

// results are all results.
var results = [...]Result{ResultHit, ResultLocal, ResultCoalesced, ResultMiss, ResultAway, ResultLate, ResultError, ResultBypass}

// metrics are the counts.
type metrics struct {
	lookup                  prometheus.Histogram
	refused, dropped        *prometheus.CounterVec // by reason
	requests, tokens, saved *prometheus.CounterVec // by route
	ratios                  *recent.Gauges         // served requests ÷ all requests

	mu     sync.Mutex
	totals Totals
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		lookup: f.NewHistogram(prometheus.HistogramOpts{
			Name: "foregate_cache_lookup_seconds", Help: "Seconds that requests waited for Redis to look an answer up.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .025, .05, .1},
		}),
		refused:  counter("foregate_cache_refused_total", "Values in Redis that were passed over, by why.", "reason"),
		dropped:  counter("foregate_cache_dropped_total", "Answers that were to be kept and are not, by why.", "reason"),
		requests: counter("llm_cache_requests_total", "Requests by what came of their lookup: hit, local and coalesced were served from the cache, bypass did not ask.", "route", "result"),
		tokens:   counter("foregate_cache_saved_tokens_total", "Tokens of answers that were served without a generation.", "route", "kind"),
		saved:    counter("foregate_cache_saved_usd_total", "What the answers that were served without a generation had cost to make, in US dollars.", "route"),
		ratios: recent.NewGauges("llm_cache_hit_ratio",
			"Share of the requests of the last five minutes that were served from the cache, of those that asked; 0 where none did.", s.now, true),
	}
	for _, reason := range []string{refusedDamaged, refusedForeign, refusedLarge, refusedType, refusedEpochs} {
		m.refused.WithLabelValues(reason)
	}
	for _, reason := range []string{droppedQueue, droppedAway, droppedFull, droppedLarge, droppedUnsound, droppedError, droppedStopped} {
		m.dropped.WithLabelValues(reason)
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_cache_local_bytes", Help: "Bytes of the copies of answers in this process.",
	}, func() float64 { return float64(s.local.held()) })
	if reg != nil {
		reg.MustRegister(m.ratios)
	}
	return m
}

// count counts one request of a configured route.
func (m *metrics) count(route string, r Result, e *Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, served := uint64(0), uint64(0)
	if r != ResultBypass {
		asked = 1
	}
	if r.served() {
		served = 1
	}
	if m.ratios.Add(route, served, asked) { // the first one shows all series of the route
		for _, result := range results {
			m.requests.WithLabelValues(route, string(result))
		}
		e = cmp.Or(e, &Entry{})
	}
	m.requests.WithLabelValues(route, string(r)).Inc()
	m.totals.Requests += asked
	m.totals.Served += served
	if e != nil {
		prompt, completion, usd := max(e.Prompt, 0), max(e.Accepted, 0)+max(e.Target, 0), max(e.USD, 0)
		m.tokens.WithLabelValues(route, "prompt").Add(float64(prompt))
		m.tokens.WithLabelValues(route, "completion").Add(float64(completion))
		m.saved.WithLabelValues(route).Add(usd)
		m.totals.SavedTokens += uint64(prompt + completion)
		m.totals.SavedUSD += usd
	}
}

package pool

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/pool/health"
	"github.com/foregate/foregate/tiers/pressure"
)

// metrics are the package's series. Pools with one registry share them; the label pool separates them.
type metrics struct {
	kvUsage      *prometheus.GaugeVec
	up           *prometheus.GaugeVec
	suspect      *prometheus.GaugeVec
	drained      *prometheus.GaugeVec
	refuses      *prometheus.GaugeVec
	engineMisfit *prometheus.GaugeVec
	inflight     *prometheus.GaugeVec
	scrapeErrors *prometheus.CounterVec
	score        *prometheus.HistogramVec
	prevented    *prometheus.CounterVec
	age          *prometheus.GaugeVec
	expected     *prometheus.CounterVec
	prompt       *prometheus.CounterVec
	hits         *engineCounter
	queries      *engineCounter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			[]string{"pool", "backend"}))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	return &metrics{
		prevented: counter("router_evictions_prevented_total", "Picks by which an eviction was avoided: the request is expected to push less than half as much out of the KV memory of the backend that was picked (blocks in use, also by what answers will grow to, and warm prefixes) as it would have of the one whose turn it was (round-robin), which is a block at least.", "pool"),
		age:       gauge("foregate_scrape_age_seconds", "Age of the backend's reading, whichever replica took it."),
		expected:  counter("foregate_prefix_expected_tokens_total", "Prompt tokens that were expected in the prefix cache of the backend that was picked.", "pool", "backend"),
		prompt:    counter("foregate_prefix_prompt_tokens_total", "Prompt tokens of the requests that were sent there, as estimated.", "pool", "backend"),
		hits:      register(reg, newEngineCounter("foregate_backend_prefix_hit_tokens_total", "Prompt tokens found in the prefix cache since the backend's start, by its own count.")),
		queries:   register(reg, newEngineCounter("foregate_backend_prefix_query_tokens_total", "Prompt tokens looked up in the prefix cache since the backend's start, by its own count.")),
		kvUsage:   gauge("foregate_backend_kv_usage", "Share of the KV cache in use by the last reading; absent while unknown."),
		up:        gauge("foregate_backend_up", "1 while the backend accepts connections and answers, 0 after it refused one or answered nothing for 2 s."),
		suspect: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_backend_suspect",
			Help: "1 while the backend seems to hang, by the reason: answers_nothing (neither metrics nor health nor tokens in time) or stands_still (its engine makes no step).",
		}, []string{"pool", "backend", "reason"})),
		drained:      gauge("foregate_backend_drained", "1 while the backend gets no new requests because an operator or a cloud said so."),
		refuses:      gauge("foregate_backend_refuses_credentials", "1 while the backend refuses the pool's credentials (pools.NAME.auth) or the TLS connection to it is refused (pools.NAME.tls), for requests or for scrapes."),
		engineMisfit: gauge("foregate_backend_engine_misfit", "1 while the backend answers as another kind of engine than configured (pools.NAME.engine), or than others of its pool."),
		inflight:     gauge("foregate_backend_requests_in_flight", "Requests of this replica under way on the backend."),
		scrapeErrors: counter("foregate_scrape_errors_total", "Scrapes of the backend's metrics that gave no reading.", "pool", "backend"),
		score: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "router_fit_score",
			Help:    "1/(1+expected wait in seconds) of the backend that was picked.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99},
		}, []string{"pool"})),
	}
}

// register returns c, or the equal collector that another pool has registered. A conflict with another metric panics, as
// MustRegister does.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if err == nil {
		return c
	}
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := already.ExistingCollector.(C); ok {
			return same
		}
	}
	panic(err)
}

// backendMetrics are one backend's series that every request updates, bound once to avoid lookups.
type backendMetrics struct {
	up           prometheus.Gauge
	drained      prometheus.Gauge
	refuses      prometheus.Gauge
	inflight     prometheus.Gauge
	scrapeErrors prometheus.Counter
	expected     prometheus.Counter
	prompt       prometheus.Counter
}

func (m *metrics) of(pool, backend string) backendMetrics {
	b := backendMetrics{
		up:           m.up.WithLabelValues(pool, backend),
		drained:      m.drained.WithLabelValues(pool, backend),
		refuses:      m.refuses.WithLabelValues(pool, backend),
		inflight:     m.inflight.WithLabelValues(pool, backend),
		scrapeErrors: m.scrapeErrors.WithLabelValues(pool, backend),
		expected:     m.expected.WithLabelValues(pool, backend),
		prompt:       m.prompt.WithLabelValues(pool, backend),
	}
	b.up.Set(1)
	return b
}

// reading shows a reading.
func (m *metrics) reading(pool, backend string, r pressure.Reading) {
	if !r.NoUsage {
		m.kvUsage.WithLabelValues(pool, backend).Set(r.KVUsage)
	}
	m.hits.set(pool, backend, r.PrefixHits)
	m.queries.set(pool, backend, r.PrefixQueries)
}

// misfit shows whether the kind of a backend's engine does not fit.
func (m *metrics) misfit(pool, backend string, misfit bool) {
	v := 0.0
	if misfit {
		v = 1
	}
	m.engineMisfit.WithLabelValues(pool, backend).Set(v)
}

// suspected shows the suspected condition of a backend.
func (m *metrics) suspected(pool, backend string, condition health.Condition) {
	for _, c := range [...]struct {
		condition health.Condition
		reason    string
	}{{health.Silent, "answers_nothing"}, {health.Hung, "stands_still"}} {
		v := 0.0
		if c.condition == condition {
			v = 1
		}
		m.suspect.WithLabelValues(pool, backend, c.reason).Set(v)
	}
}

// forget drops a backend's series.
func (m *metrics) forget(pool, backend string) {
	for _, g := range []*prometheus.GaugeVec{m.kvUsage, m.up, m.drained, m.refuses, m.engineMisfit, m.inflight, m.age} {
		g.DeleteLabelValues(pool, backend)
	}
	for _, c := range []*engineCounter{m.hits, m.queries} {
		c.forget(pool, backend)
	}
	m.suspect.DeletePartialMatch(prometheus.Labels{"pool": pool, "backend": backend})
	for _, c := range []*prometheus.CounterVec{m.scrapeErrors, m.expected, m.prompt} {
		c.DeleteLabelValues(pool, backend)
	}
}

// engineCounter shows a counter of the engines at its last reading, one entry per backend. It restarts from 0 when the
// engine does.
type engineCounter struct {
	desc *prometheus.Desc

	mu   sync.Mutex
	last map[[2]string]float64 // by pool and backend
}

func newEngineCounter(name, help string) *engineCounter {
	return &engineCounter{
		desc: prometheus.NewDesc(name, help, []string{"pool", "backend"}, nil),
		last: map[[2]string]float64{},
	}
}

func (c *engineCounter) set(pool, backend string, v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[[2]string{pool, backend}] = v
}

func (c *engineCounter) forget(pool, backend string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, [2]string{pool, backend})
}

// Describe implements [prometheus.Collector].
func (c *engineCounter) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector]. It does not block set.
func (c *engineCounter) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	all := make([]prometheus.Metric, 0, len(c.last))
	for k, v := range c.last {
		all = append(all, prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, v, k[0], k[1]))
	}
	c.mu.Unlock()
	for _, m := range all {
		to <- m
	}
}

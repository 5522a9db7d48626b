package pool

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/pressure"
)

// metrics are the package's series. Pools with one registry share them; the label pool separates them.
type metrics struct {
	score     *prometheus.HistogramVec
	prevented *prometheus.CounterVec
	states    *states
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		prevented: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "router_evictions_prevented_total",
			Help: "Picks by which an eviction was avoided: the request is expected to push less than half as much out of the KV memory of the backend that was picked (blocks in use, also by what answers will grow to, and warm prefixes) as it would have of the one whose turn it was (round-robin), which is a block at least.",
		}, []string{"pool"})),
		score: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "router_fit_score",
			Help:    "1/(1+expected wait in seconds) of the backend that was picked.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99},
		}, []string{"pool"})),
		states: register(reg, &states{}),
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

// ForgetMetrics drops the series of the pool's backends. It is called after Run has ended.
func (p *Pool) ForgetMetrics() { p.metrics.states.leave(p) }

// counts are what is counted of a backend since it joined its pool.
type counts struct{ scrapeErrors, expected, prompt float64 }

// states shows the backends as they are at each scrape: of pools with one name, of which a reload has replaced the older, those of
// the newest.
type states struct {
	mu    sync.Mutex // taken before the lock of a pool
	pools []*Pool    // the newest first
}

func (s *states) join(p *Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = slices.Insert(s.pools, 0, p)
}

func (s *states) leave(p *Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = slices.DeleteFunc(s.pools, func(o *Pool) bool { return o == p })
}

// series is one series of each backend. of returns its value, NaN if there is none; the caller holds the pool's lock.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(p *Pool, b *backend, now time.Time) float64
}

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"pool", "backend"}, more...), nil)
}

// number is 1 for true and 0 for false.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// ifKnown is a value, or NaN.
func ifKnown(v float64, known bool) float64 {
	if known {
		return v
	}
	return math.NaN()
}

var (
	suspectDesc = desc("foregate_backend_suspect", "1 while the backend seems to hang, by the reason: answers_nothing (neither metrics nor health nor tokens in time) or stands_still (its engine makes no step).", "reason")
	suspicions  = map[string]condition{"answers_nothing": conditionSilent, "stands_still": conditionHung} // by reason

	allSeries = []series{
		{desc("foregate_backend_requests_in_flight", "Requests of this replica under way on the backend."), prometheus.GaugeValue,
			func(_ *Pool, b *backend, _ time.Time) float64 { return float64(len(b.account.leases)) }},
		{desc("foregate_scrape_errors_total", "Scrapes of the backend's metrics that gave no reading."), prometheus.CounterValue,
			func(_ *Pool, b *backend, _ time.Time) float64 { return b.counts.scrapeErrors }},
		{desc("foregate_prefix_expected_tokens_total", "Prompt tokens that were expected in the prefix cache of the backend that was picked."), prometheus.CounterValue,
			func(_ *Pool, b *backend, _ time.Time) float64 { return b.counts.expected }},
		{desc("foregate_prefix_prompt_tokens_total", "Prompt tokens of the requests that were sent there, as estimated."), prometheus.CounterValue,
			func(_ *Pool, b *backend, _ time.Time) float64 { return b.counts.prompt }},
		{desc("foregate_backend_up", "1 while the backend accepts connections and answers, 0 after it refused one or answered nothing for 2 s."), prometheus.GaugeValue,
			func(_ *Pool, b *backend, _ time.Time) float64 { return number(b.down == nil) }},
		{desc("foregate_backend_drained", "1 while the backend gets no new requests because an operator or a cloud said so."), prometheus.GaugeValue,
			func(p *Pool, b *backend, _ time.Time) float64 { return number(p.drained(b) != "") }},
		{desc("foregate_backend_rent_usd_per_hour", "Rent of the backend in US dollars an hour, where it is configured."), prometheus.GaugeValue,
			func(p *Pool, _ *backend, _ time.Time) float64 {
				return ifKnown(p.price.USDPerHour, p.price.USDPerHour > 0)
			}},
		{desc("foregate_backend_refuses_credentials", "1 while the backend refuses the pool's credentials (pools.NAME.auth) or the TLS connection to it is refused (pools.NAME.tls), for requests or for scrapes."), prometheus.GaugeValue,
			func(p *Pool, b *backend, _ time.Time) float64 { return number(p.refusal(b) != "") }},
		{desc("foregate_backend_engine_misfit", "1 while the backend answers as another kind of engine than configured (pools.NAME.engine), or than others of its pool."), prometheus.GaugeValue,
			func(p *Pool, b *backend, _ time.Time) float64 { return number(p.engineProblem(b) != "") }},
		{desc("foregate_backend_kv_usage", "Share of the KV cache in use by the last reading; absent while unknown."), prometheus.GaugeValue,
			func(_ *Pool, b *backend, now time.Time) float64 {
				_, known := pressure.Weight(b.reading.At, now)
				return ifKnown(b.reading.KVUsage, known && !b.reading.NoUsage)
			}},
		{desc("foregate_scrape_age_seconds", "Age of the backend's reading, whichever replica took it."), prometheus.GaugeValue,
			func(_ *Pool, b *backend, now time.Time) float64 {
				return ifKnown(now.Sub(b.reading.At).Seconds(), !b.reading.At.IsZero() && b.identity.tellsLoad())
			}},
		{desc("foregate_backend_prefix_hit_tokens_total", "Prompt tokens found in the prefix cache since the backend's start, by its own count."), prometheus.CounterValue,
			func(_ *Pool, b *backend, _ time.Time) float64 {
				return ifKnown(b.reading.PrefixHits, !b.reading.At.IsZero())
			}},
		{desc("foregate_backend_prefix_query_tokens_total", "Prompt tokens looked up in the prefix cache since the backend's start, by its own count."), prometheus.CounterValue,
			func(_ *Pool, b *backend, _ time.Time) float64 {
				return ifKnown(b.reading.PrefixQueries, !b.reading.At.IsZero())
			}},
	}
)

// Describe implements [prometheus.Collector].
func (s *states) Describe(to chan<- *prometheus.Desc) {
	to <- suspectDesc
	for i := range allSeries {
		to <- allSeries[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (s *states) Collect(to chan<- prometheus.Metric) {
	for _, m := range s.all() {
		to <- m
	}
}

// all returns the series of all backends.
func (s *states) all() (all []prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type key struct{ pool, backend string }
	shown := map[key]bool{}
	for _, p := range s.pools {
		now := p.o.Now()
		p.locked(func() {
			for _, b := range *p.set.Load() {
				if of := (key{p.o.Name, b.id}); !shown[of] {
					shown[of] = true
					all = p.collect(all, b, now)
				}
			}
		})
	}
	return all
}

// collect appends the series of a backend. The caller holds mu.
func (p *Pool) collect(all []prometheus.Metric, b *backend, now time.Time) []prometheus.Metric {
	for i := range allSeries {
		if v := allSeries[i].of(p, b, now); !math.IsNaN(v) {
			all = append(all, prometheus.MustNewConstMetric(allSeries[i].desc, allSeries[i].kind, v, p.o.Name, b.id))
		}
	}
	for reason, c := range suspicions {
		all = append(all, prometheus.MustNewConstMetric(suspectDesc, prometheus.GaugeValue, number(b.health.condition() == c), p.o.Name, b.id, reason))
	}
	return all
}

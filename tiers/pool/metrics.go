package pool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the package's series. Pools that share a registry share them;
// the label pool tells them apart.
type metrics struct {
	kvUsage      *prometheus.GaugeVec
	up           *prometheus.GaugeVec
	inflight     *prometheus.GaugeVec
	scrapeErrors *prometheus.CounterVec
	score        *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			[]string{"pool", "backend"}))
	}
	return &metrics{
		kvUsage:  gauge("foregate_backend_kv_usage", "Share of the KV cache in use by the last reading; absent while unknown."),
		up:       gauge("foregate_backend_up", "1 while the backend accepts connections, 0 after it refused one."),
		inflight: gauge("foregate_backend_inflight", "Requests of this replica under way on the backend."),
		scrapeErrors: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_scrape_errors_total",
			Help: "Scrapes of the backend's metrics that gave no reading.",
		}, []string{"pool", "backend"})),
		score: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "router_fit_score",
			Help:    "1/(1+expected wait in seconds) of the backend that was picked.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99},
		}, []string{"pool"})),
	}
}

// register returns c, or the collector of its kind that another pool has
// registered. A clash with somebody else's metric panics, as MustRegister does.
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

// backendMetrics are one backend's series that are touched on a request's way;
// bound once so that nothing is looked up there.
type backendMetrics struct {
	up           prometheus.Gauge
	inflight     prometheus.Gauge
	scrapeErrors prometheus.Counter
}

func (m *metrics) of(pool, backend string) backendMetrics {
	b := backendMetrics{
		up:           m.up.WithLabelValues(pool, backend),
		inflight:     m.inflight.WithLabelValues(pool, backend),
		scrapeErrors: m.scrapeErrors.WithLabelValues(pool, backend),
	}
	b.up.Set(1)
	return b
}

// usage tells a backend's KV usage, or that it is unknown.
func (m *metrics) usage(pool, backend string, v float64, known bool) {
	if !known {
		m.kvUsage.DeleteLabelValues(pool, backend)
		return
	}
	m.kvUsage.WithLabelValues(pool, backend).Set(v)
}

// forget drops a backend's series.
func (m *metrics) forget(pool, backend string) {
	m.kvUsage.DeleteLabelValues(pool, backend)
	m.up.DeleteLabelValues(pool, backend)
	m.inflight.DeleteLabelValues(pool, backend)
	m.scrapeErrors.DeleteLabelValues(pool, backend)
}

package breaker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the package's series.
type metrics struct {
	transitions *prometheus.CounterVec
	errors      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, states func() []Status) *metrics {
	if reg != nil {
		reg.MustRegister(&stateCollector{
			states: states,
			state: prometheus.NewDesc(
				"foregate_breaker_state", "State of the backend's breaker: 0 closed, 1 half-open, 2 open.",
				[]string{"pool", "backend"}, nil),
			alone: prometheus.NewDesc(
				"foregate_breaker_open_here_only", "1 where the breaker is open on this replica and closed for the fleet: it is the replica's own network that is sick.",
				[]string{"pool", "backend"}, nil),
		})
	}
	f := promauto.With(reg)
	return &metrics{
		transitions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_breaker_transitions_total",
			Help: "Transitions of the backend's breaker as this replica saw them, by the state that it came to.",
		}, []string{"pool", "backend", "to"}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_breaker_redis_errors_total",
			Help: "Round trips to Redis for the breakers that failed, and commands that it refused.",
		}),
	}
}

// moved counts a transition.
func (m *metrics) moved(k Key, to State) {
	m.transitions.WithLabelValues(k.Pool, k.Backend, to.String()).Inc()
}

// forget deletes a backend's counters. A call in progress then increments a counter that is not collected.
func (m *metrics) forget(k Key) {
	m.transitions.DeletePartialMatch(prometheus.Labels{"pool": k.Pool, "backend": k.Backend})
}

// stateCollector reads the states at each scrape, because an open breaker becomes due by time alone, without
// an event that could set a gauge.
type stateCollector struct {
	states       func() []Status
	state, alone *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) { out <- c.state; out <- c.alone }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.states() {
		alone := 0.0
		if s.Alone {
			alone = 1
		}
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, float64(s.State), s.Pool, s.Backend)
		out <- prometheus.MustNewConstMetric(c.alone, prometheus.GaugeValue, alone, s.Pool, s.Backend)
	}
}

package breaker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the package's series.
type metrics struct {
	outcomes *prometheus.CounterVec
}

// outcomes are one backend's counters by class; an array so that counting an
// outcome looks nothing up.
type outcomes [Neutral + 1]prometheus.Counter

func (o *outcomes) of(c Outcome) prometheus.Counter {
	if c < Success || c > Neutral {
		c = Neutral
	}
	return o[c]
}

func newMetrics(reg prometheus.Registerer, states func() []State) *metrics {
	if reg != nil {
		reg.MustRegister(&stateCollector{states: states, desc: prometheus.NewDesc(
			"foregate_breaker_state", "State of the backend's breaker: 0 closed, 1 half-open, 2 open.",
			[]string{"pool", "backend"}, nil)})
	}
	return &metrics{outcomes: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_breaker_outcomes_total",
		Help: "Finished calls by what they said about the backend.",
	}, []string{"pool", "backend", "outcome"})}
}

func (m *metrics) outcomesOf(k key) outcomes {
	var o outcomes
	for c := Success; c <= Neutral; c++ {
		o[c] = m.outcomes.WithLabelValues(k.pool, k.backend, c.String())
	}
	return o
}

// forget drops a backend's counters. A call that is still under way counts on
// into one that nobody collects.
func (m *metrics) forget(k key) {
	m.outcomes.DeletePartialMatch(prometheus.Labels{"pool": k.pool, "backend": k.backend})
}

// stateCollector reads the states when it is asked, because an open breaker
// becomes due by time alone and nothing would set a gauge then.
type stateCollector struct {
	states func() []State
	desc   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.states() {
		v := 0.0
		switch s.State {
		case halfOpen.String():
			v = 1
		case open.String():
			v = 2
		}
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, v, s.Pool, s.Backend)
	}
}

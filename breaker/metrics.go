package breaker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	labels    = []string{"pool", "backend"}
	stateDesc = prometheus.NewDesc("foregate_breaker_state", "State of the backend's breaker: 0 closed, 1 half-open, 2 open.", labels, nil)
	aloneDesc = prometheus.NewDesc("foregate_breaker_open_here_only",
		"1 where the breaker is open on this replica and closed for the fleet: it is the replica's own network that is sick.", labels, nil)
)

func newTransitions(reg prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_breaker_transitions_total",
		Help: "Transitions of the backend's breaker as this replica saw them, by the state that it came to.",
	}, []string{"pool", "backend", "to"})
}

// collector reads the states at each scrape, because an open breaker becomes due by time alone.
type collector struct{ *Set }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) { out <- stateDesc; out <- aloneDesc }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.States() {
		alone := 0.0
		if s.Alone {
			alone = 1
		}
		out <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, float64(s.State), s.Pool, s.Backend)
		out <- prometheus.MustNewConstMetric(aloneDesc, prometheus.GaugeValue, alone, s.Pool, s.Backend)
	}
}

package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/tiers/engine"
)

// metrics count calls. All labels have a bounded set of values.
type metrics struct {
	failures    *prometheus.CounterVec
	budgetSpent prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	return &metrics{
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_upstream_failures_total", Help: "Calls to backends that failed, by kind.",
		}, []string{"pool", "kind"}),
		budgetSpent: with.NewCounter(prometheus.CounterOpts{
			Name: "foregate_retry_budget_exhausted_total", Help: "Retries that were not made because the budget was spent.",
		}),
	}
}

// countFailure counts a call that failed.
func (m *metrics) countFailure(f *engine.Failure) {
	m.failures.WithLabelValues(f.Pool, string(f.Kind)).Inc()
}

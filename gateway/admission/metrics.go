package admission

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	waiting  *prometheus.GaugeVec
	shedding *prometheus.GaugeVec
	wait     *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		waiting: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_queue_depth", Help: "Requests waiting for capacity at a pool.",
		}, []string{"pool", "priority"}),
		shedding: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_shedding", Help: "1 while the priority class is shed at the pool for at least one route.",
		}, []string{"pool", "priority"}),
		wait: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "foregate_queue_wait_seconds", Help: "Seconds that queued requests waited for capacity.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"priority"}),
	}
}

// forget drops a pool's series.
func (m *metrics) forget(pool string) {
	m.waiting.DeletePartialMatch(prometheus.Labels{"pool": pool})
	m.shedding.DeletePartialMatch(prometheus.Labels{"pool": pool})
}

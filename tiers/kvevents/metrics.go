package kvevents

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of the package. They have no label for the backend; the pool's metrics do.
type metrics struct {
	events [kinds]prometheus.Counter
	blocks prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{blocks: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Name: "foregate_kv_index_blocks",
		Help: "KV blocks that backends are known to have.",
	})}
	events := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_kv_events_total",
		Help: "KV events of backends by what they came to; gap and bad count messages.",
	}, []string{"kind"})
	for k, name := range kindNames {
		m.events[k] = events.WithLabelValues(name)
	}
	return m
}

package usage

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	written, failed prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, pending func() float64) *metrics {
	f := promauto.With(reg)
	writes := f.NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_usage_writes_total",
		Help: "Attempts to write the tenants' usage to Redis, by result: ok, or error. After an error usage is kept in memory and written later.",
	}, []string{"result"})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_usage_pending_requests",
		Help: "Requests whose usage is only in this replica's memory. It is lost if the replica ends while Redis does not answer.",
	}, pending)
	return &metrics{
		written: writes.WithLabelValues("ok"), failed: writes.WithLabelValues("error"),
	}
}

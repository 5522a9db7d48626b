package tracing

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ exported, refused prometheus.Counter }

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		exported: f.NewCounter(prometheus.CounterOpts{Name: "foregate_spans_exported_total", Help: "Spans that the trace collector accepted."}),
		refused:  f.NewCounter(prometheus.CounterOpts{Name: "foregate_spans_refused_total", Help: "Spans that were dropped, because the trace collector was away, too slow, or refused them."}),
	}
}

package tracing

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Why a trace was dropped.
const (
	dropQueue   = "queue"   // too many waited
	dropRefused = "refused" // the collector was unavailable, too slow, or refused it
	dropStop    = "stop"    // the gateway stopped before it could be sent
)

type metrics struct {
	exported prometheus.Counter
	dropped  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		exported: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_traces_exported_total", Help: "Traces that the collector accepted, one per request.",
		}),
		dropped: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_traces_dropped_total", Help: "Traces that were dropped: the queue was full (queue), the collector refused them (refused), or the gateway stopped (stop).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{dropQueue, dropRefused, dropStop} {
		m.dropped.WithLabelValues(reason)
	}
	return m
}

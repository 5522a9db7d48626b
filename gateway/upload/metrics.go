package upload

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	refused *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, g *Gate) *metrics {
	f := promauto.With(reg)
	m := &metrics{refused: f.NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_upload_refused_total",
		Help: "Requests refused before their body was read whole, by reason; those of a tenant are about what it holds itself.",
	}, []string{"reason"})}
	for _, r := range reasons {
		m.refused.WithLabelValues(string(r))
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_uploads", Help: "Request bodies that are coming.",
	}, func() float64 { return float64(g.Usage().Uploads) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_upload_bytes", Help: "Bytes set aside for request bodies, of those that are coming and of requests under way.",
	}, func() float64 { return float64(g.Usage().Bytes) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_upload_limit_bytes", Help: "Most bytes that may be set aside for request bodies.",
	}, func() float64 { return float64(g.bytes.total) })
	return m
}

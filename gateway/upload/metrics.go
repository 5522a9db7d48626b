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
		Help: "Requests refused before their whole body was read, by reason. Reasons of a tenant concern that tenant's own share.",
	}, []string{"reason"})}
	for _, r := range reasons {
		m.refused.WithLabelValues(string(r))
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_uploads", Help: "Request bodies being received.",
	}, func() float64 { return float64(g.Usage().Uploads) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_upload_bytes", Help: "Bytes reserved for request bodies, of uploads and of requests in flight.",
	}, func() float64 { return float64(g.Usage().Bytes) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_upload_limit_bytes", Help: "Largest number of bytes that may be reserved for request bodies.",
	}, func() float64 { return float64(g.bytes.total) })
	return m
}

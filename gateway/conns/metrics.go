package conns

import "github.com/prometheus/client_golang/prometheus"

// Reasons for refusing a connection, or for closing a waiting one.
const (
	reasonFull    = "full"    // the table is full
	reasonAddress = "address" // its address has reached its limit
	reasonIdle    = "idle"    // idle for longer than the table's fill allows; not a reason for a refusal
)

// metrics of one table.
type metrics struct {
	refused *prometheus.CounterVec
	closed  *prometheus.CounterVec

	refusedStreams *prometheus.CounterVec
}

func newMetrics(t *Table) *metrics {
	own := prometheus.Labels{"listener": t.opts.Listener}
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_connections_refused_total", ConstLabels: own,
			Help: "Client connections refused because none could be closed for them, " +
				"by what was short: full (all places) or address (those of its address).",
		}, []string{"reason"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_connections_closed_idle_total", ConstLabels: own,
			Help: "Client connections closed while they waited for a request: " +
				"for a new one where all places were taken (full) or those of its address (address), " +
				"or because they were idle for longer than the fill allows (idle).",
		}, []string{"reason"}),
		refusedStreams: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_http2_streams_refused_total", ConstLabels: own,
			Help: "HTTP/2 streams reset because too many requests were in progress on connections that had others, " +
				"by what was short: full (all places) or address (those of its address).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{reasonFull, reasonAddress} {
		m.refusedStreams.WithLabelValues(reason)
		m.refused.WithLabelValues(reason)
		m.closed.WithLabelValues(reason)
	}
	m.closed.WithLabelValues(reasonIdle)
	if reg := t.opts.Registerer; reg != nil {
		reg.MustRegister(m.refused, m.closed, m.refusedStreams, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "foregate_connections", ConstLabels: own, Help: "Open client connections.",
		}, func() float64 { return float64(t.count()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "foregate_connections_limit", ConstLabels: own, Help: "Largest number of open client connections.",
		}, func() float64 { return float64(t.opts.Max) }))
	}
	return m
}

package settings

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxNames bounds the number of series of the gauges that name fields; the rest is one series named other.
const maxNames = 128

type metrics struct {
	rejected, unknown named
	applied           prometheus.Gauge
	errors            prometheus.Counter
	lost              prometheus.Gauge
}

// named is a gauge that is 1 for every field of a list.
type named struct{ *prometheus.GaugeVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		rejected: named{f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_settings_rejected",
			Help: "1 for every live setting whose value this replica rejects; its last valid value stays in force.",
		}, []string{"name"})},
		unknown: named{f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_settings_unknown",
			Help: "1 for every live setting that this replica does not know and ignores: it is misspelt or of another version.",
		}, []string{"name"})},
		applied: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_settings_applied_timestamp_seconds",
			Help: "Unix time at which this replica last applied changed settings.",
		}),
		lost: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_settings_lost",
			Help: "Settings that Redis lost and that are not published again yet. Their last values stay in force on this replica.",
		}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_settings_errors_total",
			Help: "Failed reads of the live settings; the last valid settings stay in force.",
		}),
	}
}

// show exports exactly the given fields.
func (n *named) show(fields []RejectedValue) {
	n.Reset()
	for i, r := range fields {
		if i == maxNames-1 && len(fields) > maxNames {
			n.WithLabelValues("other").Set(1)
			return
		}
		n.WithLabelValues(r.Name).Set(1)
	}
}

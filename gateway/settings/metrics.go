package settings

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxNames bounds the label of the rejected gauge; what does not fit is one
// series named other.
const maxNames = 64

type metrics struct {
	rejected *prometheus.GaugeVec
	applied  prometheus.Gauge
	changed  prometheus.Counter
	errors   prometheus.Counter

	shown []string // labels of rejected now, so that only stale ones are deleted
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		rejected: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_settings_rejected",
			Help: "1 for every field of the live settings that this replica refuses; its last good value stays in force.",
		}, []string{"name"}),
		applied: f.NewGauge(prometheus.GaugeOpts{
			Name: "foregate_settings_applied_timestamp_seconds",
			Help: "When this replica last put changed settings into force.",
		}),
		changed: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_settings_changed_total",
			Help: "Times that changed settings were put into force.",
		}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_settings_errors_total",
			Help: "Reads of the live settings that failed; the last good settings stay in force.",
		}),
	}
}

// refuse shows exactly the given fields as rejected.
func (m *metrics) refuse(rejected []Rejected) {
	var now []string
	for _, r := range rejected {
		if len(now) == maxNames {
			now[maxNames-1] = "other"
			break
		}
		now = append(now, r.Name)
	}
	for _, name := range m.shown {
		if !slices.Contains(now, name) {
			m.rejected.DeleteLabelValues(name)
		}
	}
	for _, name := range now {
		m.rejected.WithLabelValues(name).Set(1)
	}
	m.shown = now
}

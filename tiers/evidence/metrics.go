package evidence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/tiers/risk"
)

// labelAway is the label of an audit that Redis did not take. The fates of package risk are labels, too, and those of the
// log: an audit is lost here if its outcome had no effect.
const labelAway = "away"

type metrics struct {
	audits *prometheus.CounterVec
	errors *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		audits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_audits_total",
			Help: "Audits of drafts, by what became of them: good or bad; lost, its outcome came too late, after an alarm, or never; stale, outside, full, not begun because the grid is another, the score is below the region, too many are under way; learned, its score helps to place the grid; away, Redis did not answer.",
		}, []string{"route", "label"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_risk_errors_total",
			Help: "What went wrong with the evidence in Redis: redis, no answer; refused, an error as an answer; fields, not what was written; script, something beside what a script was for.",
		}, []string{"kind"}),
	}
	for kind := range says {
		m.errors.WithLabelValues(string(kind))
	}
	return m
}

func (m *metrics) count(k risk.Key, label string) {
	m.audits.WithLabelValues(k.Route, label).Inc()
}

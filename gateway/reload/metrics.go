package reload

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	lastReloadSuccessful *prometheus.GaugeVec
	reloads              *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		lastReloadSuccessful: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_file_last_reload_successful", Help: "1 if the current content of a setting's file is in force, 0 if its last valid content is.",
		}, []string{"setting"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_file_reloads_total", Help: "Number of times that changed content of a setting's file was applied.",
		}, []string{"setting"}),
	}
	if reg != nil {
		reg.MustRegister(m.lastReloadSuccessful, m.reloads)
	}
	return m
}

package reload

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	lastReloadSuccessful *prometheus.GaugeVec
	reloads              *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		lastReloadSuccessful: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_file_last_reload_successful", Help: "1 where the file of a setting is in force as it is now, 0 where its last good content is.",
		}, []string{"setting"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_file_reloads_total", Help: "Times that changed content of a setting's file was put into force.",
		}, []string{"setting"}),
	}
	if reg != nil {
		reg.MustRegister(m.lastReloadSuccessful, m.reloads)
	}
	return m
}

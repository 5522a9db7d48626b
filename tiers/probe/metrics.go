package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows the cards as they are when they are asked for: labels are the pools of
// the configuration and closed sets.
type collector struct {
	pools func() map[string]*watch
	now   func() time.Time
}

var (
	missingDesc = prometheus.NewDesc("foregate_probe_missing",
		"1 where the pool's engines lack it, or were not probed yet; 0 where they have it.", []string{"pool", "capability"}, nil)
	ageDesc = prometheus.NewDesc("foregate_probe_age_seconds",
		"Time since the pool's engines were last probed with success; absent before.", []string{"pool"}, nil)
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- missingDesc
	ch <- ageDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, w := range c.pools() {
		capabilities := w.probedCapabilities()
		for _, what := range CapabilityNames {
			missing := 0.0
			if capabilities.MissingReason(what) != "" {
				missing = 1
			}
			gauge(missingDesc, missing, w.pool.Name, what)
		}
		if capabilities != nil {
			gauge(ageDesc, c.now().Sub(capabilities.At).Seconds(), w.pool.Name)
		}
	}
}

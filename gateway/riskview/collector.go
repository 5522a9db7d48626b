package riskview

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/risk"
)

// maxSeries is the maximum number of states that a [Collector] exports: there may be a thousand.
const maxSeries = 256

// Collector exports states as series at each scrape.
type Collector struct {
	states  func() []risk.KeyState
	summary func(k *risk.KeyState) risk.Summary
	kinds   []kindOfSeries
}

// kindOfSeries is one series of each state.
type kindOfSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *risk.Summary) float64
}

// phase is the series of the phases, and threshold that of the thresholds in force.
var (
	phase = prometheus.NewDesc("foregate_risk_phase",
		"1 for the phase in which a kind of request is, as foregate risk show names it: warmup, stopped (the target disagreed with too many drafts of the warm-up), certified, uncertified, learning or infeasible; absent for the others.",
		[]string{"route", "traffic_class", "phase"}, nil)
	threshold = descOf("threshold_nats", "Lowest score with which a draft is served; absent while none is.")
)

// NewCollector returns a collector, which the caller must register. states is called at every scrape, so it
// must not use Redis; of more than 256 the collector exports the most recently seen ones.
func NewCollector(states func() []risk.KeyState, summary func(k *risk.KeyState) risk.Summary) *Collector {
	c := &Collector{states: states, summary: summary}
	add := func(kind prometheus.ValueType, name, help string, of func(s *risk.Summary) float64) {
		c.kinds = append(c.kinds, kindOfSeries{descOf(name, help), kind, of})
	}
	add(prometheus.GaugeValue, "max_disagreement", "Largest share of the drafts served that the target may have refused, by the guarantee.", func(s *risk.Summary) float64 { return s.MaxDisagreement })
	add(prometheus.GaugeValue, "upper_bound", "Share of the drafts accepted by the operating threshold that the target would refuse: proven to be less; 1 while nothing is proven.", func(s *risk.Summary) float64 { return s.Bound })
	add(prometheus.GaugeValue, "estimate", "The same share among the audits.", func(s *risk.Summary) float64 { return s.Estimate })
	add(prometheus.GaugeValue, "estimate_lower", "Lower end of the interval that holds the share at every moment, with the probability of the guarantee.", func(s *risk.Summary) float64 { return s.Low })
	add(prometheus.GaugeValue, "estimate_upper", "Upper end of that interval.", func(s *risk.Summary) float64 { return s.High })
	add(prometheus.GaugeValue, "audits", "Audits that this rests on, of those that have an outcome.", func(s *risk.Summary) float64 { return float64(s.Audits) })
	add(prometheus.GaugeValue, "pending_audits", "Audits without an outcome, which count as bad.", func(s *risk.Summary) float64 { return float64(s.Pending) })
	add(prometheus.CounterValue, "alarms_total", "Alarms of drift, each of which took all certificates back.", func(s *risk.Summary) float64 { return float64(s.Alarms) })
	return c
}

func descOf(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("foregate_risk_"+name, help, []string{"route", "traffic_class"}, nil)
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for i := range c.kinds {
		to <- c.kinds[i].desc
	}
	to <- phase
	to <- threshold
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	shown := latest(c.states())
	for i := range shown {
		s := c.summary(&shown[i])
		to <- prometheus.MustNewConstMetric(phase, prometheus.GaugeValue, 1, s.Route, s.TrafficClass, string(s.Phase))
		if s.Threshold != nil {
			to <- prometheus.MustNewConstMetric(threshold, prometheus.GaugeValue, *s.Threshold, s.Route, s.TrafficClass)
		}
		for j := range c.kinds {
			to <- prometheus.MustNewConstMetric(c.kinds[j].desc, c.kinds[j].kind, c.kinds[j].of(&s), s.Route, s.TrafficClass)
		}
	}
}

// latest returns the most recently seen states, as many as are exported. all is not changed.
func latest(all []risk.KeyState) []risk.KeyState {
	if len(all) <= maxSeries {
		return all
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b risk.KeyState) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all[:maxSeries]
}

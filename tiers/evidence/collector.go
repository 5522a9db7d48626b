package evidence

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/risk"
)

// maxSeries is the maximum number of states that are exported, the most recently seen ones: there may be a thousand.
const maxSeries = 256

// collector exports states as series at each scrape, as they are known: it does not ask Redis.
type collector struct{ *Store }

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("foregate_risk_"+name, help, append([]string{"route", "traffic_class"}, more...), nil)
}

var (
	phase     = desc("phase", "1 for the phase in which a kind of request is, as foregate risk show names it: warmup, stopped (the target disagreed with too many drafts of the warm-up), certified, uncertified, learning or infeasible; absent for the others.", "phase")
	threshold = desc("threshold_nats", "Lowest score with which a draft is served; absent while none is.")

	// series are those of each state.
	series = []struct {
		desc *prometheus.Desc
		kind prometheus.ValueType
		of   func(s *risk.Summary) float64
	}{
		{desc("max_disagreement", "Largest share of the drafts served that the target may have refused, by the guarantee."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return s.MaxDisagreement }},
		{desc("upper_bound", "Share of the drafts accepted by the operating threshold that the target would refuse: proven to be less; 1 while nothing is proven."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return s.Bound }},
		{desc("estimate", "The same share among the audits."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return s.Estimate }},
		{desc("estimate_lower", "Lower end of the interval that holds the share at every moment, with the probability of the guarantee."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return s.Low }},
		{desc("estimate_upper", "Upper end of that interval."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return s.High }},
		{desc("audits", "Audits that this rests on, of those that have an outcome."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return float64(s.Audits) }},
		{desc("pending_audits", "Audits without an outcome, which count as bad."), prometheus.GaugeValue, func(s *risk.Summary) float64 { return float64(s.Pending) }},
		{desc("alarms_total", "Alarms of drift, each of which took all certificates back."), prometheus.CounterValue, func(s *risk.Summary) float64 { return float64(s.Alarms) }},
	}
)

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	to <- phase
	to <- threshold
	for i := range series {
		to <- series[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	shown, _ := latest(c.states(), maxSeries)
	for i := range shown {
		s := c.summary(&shown[i])
		to <- prometheus.MustNewConstMetric(phase, prometheus.GaugeValue, 1, s.Route, s.TrafficClass, string(s.Phase))
		if s.Threshold != nil {
			to <- prometheus.MustNewConstMetric(threshold, prometheus.GaugeValue, *s.Threshold, s.Route, s.TrafficClass)
		}
		for _, x := range series {
			to <- prometheus.MustNewConstMetric(x.desc, x.kind, x.of(&s), s.Route, s.TrafficClass)
		}
	}
}

package evidence

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/risk"
)

// maxSeries is the maximum number of states that a [Collector] exports: there may be a thousand, and each has
// at most eighteen series. A scrape of 256 takes 15 ms (BenchmarkAScrapeOfAllStates).
const maxSeries = 256

// Collector exports states as series at each scrape.
type Collector struct {
	states func() []KeyState
	phases func(all []KeyState) map[risk.Key]string

	kinds      []stateSeries
	phase      *prometheus.Desc
	unexported *prometheus.Desc
}

// stateSeries is one series of each state.
type stateSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// value returns the value, and whether there is one.
	value func(k *KeyState, s *risk.Summary) (float64, bool)
}

// NewCollector returns a collector, which the caller must register. states is called at every scrape, so it
// must not use Redis; of more than 256 the collector exports the most recently seen ones. phases returns the
// phase of each; nil exports none.
func NewCollector(states func() []KeyState, phases func(all []KeyState) map[risk.Key]string) *Collector {
	return &Collector{
		states: states, phases: phases, kinds: kindsOfSeries(),
		phase: prometheus.NewDesc("foregate_risk_phase",
			"1 for the phase in which a kind of request is, as foregate risk show names it: warmup, stopped (too many drafts of the warm-up were wrong), certified, uncertified, learning or infeasible; absent for the others.",
			[]string{"route", "traffic_class", "phase"}, nil),
		unexported: prometheus.NewDesc("foregate_risk_omitted_classes",
			"Kinds of request that the other series of audits do not tell of, because there are too many.", nil, nil),
	}
}

// kindsOfSeries lists all series of one state.
func kindsOfSeries() []stateSeries {
	var all []stateSeries
	add := func(kind prometheus.ValueType, name, help string, value func(k *KeyState, s *risk.Summary) (float64, bool)) {
		all = append(all, stateSeries{prometheus.NewDesc("foregate_risk_"+name, help, []string{"route", "traffic_class"}, nil), kind, value})
	}
	gauge := func(name, help string, value func(k *KeyState, s *risk.Summary) float64) {
		add(prometheus.GaugeValue, name, help, func(k *KeyState, s *risk.Summary) (float64, bool) { return value(k, s), true })
	}
	gauge("max_wrong_rate", "Largest share of the drafts served that the target may have refused, by the guarantee.", func(k *KeyState, _ *risk.Summary) float64 { return k.Rule.MaxWrongRate })
	gauge("upper_bound", "Share of the drafts accepted by the operating threshold that the target would refuse: proven to be less; 1 while nothing is proven.", bounded)
	gauge("estimate", "The same share among the audits.", func(_ *KeyState, s *risk.Summary) float64 { return s.Estimate })
	gauge("estimate_lower", "Lower end of the interval that holds the share at every moment, with the probability of the guarantee.", func(_ *KeyState, s *risk.Summary) float64 { return s.Low })
	gauge("estimate_upper", "Upper end of that interval.", func(_ *KeyState, s *risk.Summary) float64 { return s.High })
	gauge("certified_thresholds", "Number of the loosest certified threshold, counted from the strictest; 0: no draft is served.", func(_ *KeyState, s *risk.Summary) float64 { return float64(s.Op) })
	gauge("expected_acceptance", "Share of the drafts that the operating threshold accepted when it was placed.", func(_ *KeyState, s *risk.Summary) float64 { return s.Acceptance })
	add(prometheus.GaugeValue, "threshold_nats", "Lowest score with which a draft is served; absent while none is.", func(_ *KeyState, s *risk.Summary) (float64, bool) { return s.Threshold, s.Op > 0 })
	gauge("audits", "Audits that this rests on, of those that have an outcome.", func(_ *KeyState, s *risk.Summary) float64 { return float64(s.Audits) })
	gauge("pending_audits", "Audits without an outcome, which count as bad.", func(_ *KeyState, s *risk.Summary) float64 { return float64(s.Pending) })
	gauge("drift_level", "How far the watch for a drift has come on its way to the alarm, which is 1.", func(_ *KeyState, s *risk.Summary) float64 { return s.Drift })
	gauge("infeasible", "1 where audits say that no threshold keeps the guarantee.", func(_ *KeyState, s *risk.Summary) float64 { return truth(s.Infeasible) })
	warmup := func(kind prometheus.ValueType, name, help string, value func(w *risk.Warmup) (float64, bool)) {
		add(kind, "warmup_"+name, help, func(k *KeyState, _ *risk.Summary) (float64, bool) {
			v, ok := value(&k.State.Warmup)
			return v, ok && k.State.Warmup.Began != 0
		})
	}
	warmup(prometheus.CounterValue, "drafts_total", "Drafts that were made for requests in the warm-up.", func(w *risk.Warmup) (float64, bool) { return float64(w.Drafts), true })
	warmup(prometheus.CounterValue, "served_total", "Drafts of the warm-up that were the answer, unverified.", func(w *risk.Warmup) (float64, bool) { return float64(w.Served), true })
	warmup(prometheus.GaugeValue, "audits", "Drafts served by the warm-up whose audit has an outcome.", func(w *risk.Warmup) (float64, bool) {
		n, _ := w.Closed()
		return float64(n), true
	})
	warmup(prometheus.GaugeValue, "wrong_rate", "Share of those audits that were bad; absent while there are none.", func(w *risk.Warmup) (float64, bool) {
		n, bad := w.Closed()
		return float64(bad) / float64(max(n, 1)), n > 0
	})
	add(prometheus.CounterValue, "alarms_total", "Alarms of drift, each of which took all certificates back.", func(k *KeyState, _ *risk.Summary) (float64, bool) { return float64(k.State.Alarm), true })
	return all
}

// bounded is the proven bound of the risk: a certificate remains a proof during later audits.
func bounded(k *KeyState, s *risk.Summary) float64 {
	if s.Op > 0 {
		return min(s.Bound, k.Rule.MaxWrongRate)
	}
	return s.Bound
}

// truth is 1 for true.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for i := range c.kinds {
		to <- c.kinds[i].desc
	}
	to <- c.phase
	to <- c.unexported
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	all := c.states()
	var phases map[risk.Key]string
	if c.phases != nil {
		phases = c.phases(all)
	}
	shown := latest(all)
	to <- prometheus.MustNewConstMetric(c.unexported, prometheus.GaugeValue, float64(len(all)-len(shown)))
	for i := range shown {
		k := &shown[i]
		if phase := phases[k.Key]; phase != "" {
			to <- prometheus.MustNewConstMetric(c.phase, prometheus.GaugeValue, 1, k.Key.Route, k.Key.TrafficClass, phase)
		}
		s := k.State.Summarise(k.Rule)
		for j := range c.kinds {
			if v, ok := c.kinds[j].value(k, &s); ok {
				to <- prometheus.MustNewConstMetric(c.kinds[j].desc, c.kinds[j].kind, v, k.Key.Route, k.Key.TrafficClass)
			}
		}
	}
}

// latest returns the most recently seen states, as many as are exported. all is not changed.
func latest(all []KeyState) []KeyState {
	if len(all) <= maxSeries {
		return all
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b KeyState) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all[:maxSeries]
}

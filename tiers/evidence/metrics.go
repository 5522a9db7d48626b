package evidence

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/tiers/risk"
)

// labelAway is the label of an audit that Redis did not take. The results of package risk are labels, too, and those of the
// log: an audit is lost here if its outcome had no effect.
const labelAway = "away"

// problem is a kind of failure, and what the log says of it.
type problem struct{ kind, says string }

var (
	problemAway    = problem{"redis", "evidence: Redis does not answer; no audit can be booked, and views grow old"}
	problemRefused = problem{"refused", "evidence: Redis refuses what is asked of it; audits are not booked"}
	problemForeign = problem{"fields", "evidence: what Redis holds is not what was written; it is passed over"}
	problemLost    = problem{"lost", "evidence: Redis lost data; all certificates of a route end"}
)

// metrics counts audits and problems.
type metrics struct {
	*Options
	audits, errors *prometheus.CounterVec

	mu   sync.Mutex
	last map[problem]time.Time // when each was logged
}

func newMetrics(o *Options) *metrics {
	f := promauto.With(o.Registerer)
	m := &metrics{
		Options: o, last: map[problem]time.Time{},
		audits: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_audits_total",
			Help: "Audits of drafts, by what became of them: good or bad; lost, its outcome came too late, after an alarm, or never; stale, outside, full, not begun because the grid is another, the score is below the region, too many are under way; learned, its score helps to place the grid; away, Redis did not answer.",
		}, []string{"route", "label"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_risk_errors_total",
			Help: "What went wrong with the evidence in Redis: redis, no answer; refused, an error as an answer; fields, not what was written; lost, the log of a route is not the one that was read before, so that its certificates ended.",
		}, []string{"kind"}),
	}
	for _, p := range []problem{problemAway, problemRefused, problemForeign, problemLost} {
		m.errors.WithLabelValues(p.kind)
	}
	return m
}

// note counts a problem, and logs it at most once a minute.
func (m *metrics) note(what problem, err error) {
	m.errors.WithLabelValues(what.kind).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.last[what]; !ok || m.Now().Sub(at) >= time.Minute {
		m.last[what] = m.Now()
		m.Logger.Warn().Err(err).Msg(what.says)
	}
}

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

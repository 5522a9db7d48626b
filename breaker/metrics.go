package breaker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/breaker/machine"
)

// metrics are the package's series.
type metrics struct {
	outcomes, transitions, probes *prometheus.CounterVec
	errors                        prometheus.Counter
}

// outcomes are one backend's counters by class; an array, so that counting needs no look-up.
type outcomes [machine.Neutral + 1]prometheus.Counter

func (o *outcomes) of(c machine.Outcome) prometheus.Counter {
	if c < machine.Success || c > machine.Neutral {
		c = machine.Neutral
	}
	return o[c]
}

func newMetrics(reg prometheus.Registerer, states func() []State) *metrics {
	if reg != nil {
		reg.MustRegister(&stateCollector{
			states: states,
			state: prometheus.NewDesc(
				"foregate_breaker_state", "State of the backend's breaker: 0 closed, 1 half-open, 2 open.",
				[]string{"pool", "backend"}, nil),
			alone: prometheus.NewDesc(
				"foregate_breaker_open_here_only", "1 where the breaker is open on this replica and closed for the fleet: it is the replica's own network that is sick.",
				[]string{"pool", "backend"}, nil),
		})
	}
	f := promauto.With(reg)
	m := &metrics{
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_breaker_outcomes_total",
			Help: "Finished calls by what they said about the backend.",
		}, []string{"pool", "backend", "outcome"}),
		transitions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_breaker_transitions_total",
			Help: "Transitions of the backend's breaker as this replica saw them, by the state that it came to.",
		}, []string{"pool", "backend", "to"}),
		probes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_breaker_probes_total",
			Help: "Probes of open backends by this replica, by what they found; late is a result that came after another replica had taken over.",
		}, []string{"result"}),
		errors: f.NewCounter(prometheus.CounterOpts{
			Name: "foregate_breaker_redis_errors_total",
			Help: "Round trips to Redis for the breakers that failed, and commands that it refused.",
		}),
	}
	for _, r := range []string{probeWell, probeFault, probeNeutral, probeLate} {
		m.probes.WithLabelValues(r)
	}
	return m
}

// moved counts a transition.
func (m *metrics) moved(k machine.Key, to machine.State) {
	m.transitions.WithLabelValues(k.Pool, k.Backend, to.String()).Inc()
}

func (m *metrics) outcomesOf(k machine.Key) outcomes {
	var o outcomes
	for c := machine.Success; c <= machine.Neutral; c++ {
		o[c] = m.outcomes.WithLabelValues(k.Pool, k.Backend, c.String())
	}
	return o
}

// forget deletes a backend's counters. A call in progress then increments a counter that is not collected.
func (m *metrics) forget(k machine.Key) {
	of := prometheus.Labels{"pool": k.Pool, "backend": k.Backend}
	m.outcomes.DeletePartialMatch(of)
	m.transitions.DeletePartialMatch(of)
}

// stateCollector reads the states at each scrape, because an open breaker becomes due by time alone, without
// an event that could set a gauge.
type stateCollector struct {
	states       func() []State
	state, alone *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) { out <- c.state; out <- c.alone }

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.states() {
		v := 0.0
		switch s.State {
		case machine.HalfOpen.String():
			v = 1
		case machine.Open.String():
			v = 2
		}
		alone := 0.0
		if s.Alone {
			alone = 1
		}
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, v, s.Pool, s.Backend)
		out <- prometheus.MustNewConstMetric(c.alone, prometheus.GaugeValue, alone, s.Pool, s.Backend)
	}
}

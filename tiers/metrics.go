package tiers

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the cascade's own. Labels come from the configuration and from
// closed sets.
type metrics struct {
	acceptance  *prometheus.CounterVec
	drafted     *prometheus.CounterVec
	accepted    *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	failures    *prometheus.CounterVec
	cost        *prometheus.CounterVec
	budgetSpent prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		acceptance: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_acceptance_total", Help: "Requests by what became of their draft.",
		}, []string{"route", "mode", "verdict", "reason"}),
		drafted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_draft_tokens_total", Help: "Tokens drafted and judged.",
		}, []string{"route"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_accepted_tokens_total", Help: "Judged draft tokens that went into answers.",
		}, []string{"route"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_tokens_total", Help: "Tokens by tier and kind: prompt, delivered, wasted.",
		}, []string{"tier", "kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_upstream_failures_total", Help: "Calls to backends that failed, by kind.",
		}, []string{"pool", "kind"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_cost_usd_total", Help: "What requests cost: their shares of the price of the backends that worked for them, by the tier these are of.",
		}, []string{"tier"}),
		budgetSpent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "foregate_retry_budget_exhausted_total", Help: "Retries that were not made because the budget was spent.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.acceptance, m.drafted, m.accepted, m.tokens, m.failures, m.cost, m.budgetSpent)
	}
	return m
}

func (m *metrics) failed(f *Failure) {
	m.failures.WithLabelValues(f.Pool, string(f.Kind)).Inc()
}

// settled books a finished request.
func (m *metrics) settled(rc *Receipt, mode Mode) {
	verdict, reason := rc.verdict()
	if rc.judged() {
		m.drafted.WithLabelValues(rc.Route).Add(float64(rc.Verdict.Tokens))
		m.accepted.WithLabelValues(rc.Route).Add(float64(rc.AcceptedTokens))
		m.tokens.WithLabelValues(string(Draft), "wasted").Add(float64(rc.WastedTokens))
	}
	m.acceptance.WithLabelValues(rc.Route, string(mode), verdict, reason).Inc()
	m.tokens.WithLabelValues(string(Draft), "delivered").Add(float64(rc.AcceptedTokens))
	m.tokens.WithLabelValues(string(Target), "delivered").Add(float64(rc.TargetTokens))
	if rc.Tier != "" {
		m.tokens.WithLabelValues(string(rc.Tier), "prompt").Add(float64(rc.PromptTokens))
	}
}

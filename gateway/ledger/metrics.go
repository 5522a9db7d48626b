package ledger

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/foregate/foregate/internal/redis/calls"
)

// resultRefilling is a result of a call to Redis besides those of [calls.Results]: Redis has lost data, and replicas fill it
// again.
const resultRefilling = "refilling"

type metrics struct {
	limited, exhausted      *prometheus.CounterVec
	limits, budgets         *prometheus.CounterVec
	first, retry            prometheus.Counter
	demoted, dropped        prometheus.Counter
	rowsWritten, rowsFailed prometheus.Counter

	cost, baseline, unpriced *prometheus.CounterVec
	saved                    *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, pending func() float64) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	attempts := counters("foregate_client_attempts_total",
		"Requests whose body was read: first attempts, and attempts that an SDK marked as retries. (first + retry) / first is the retry amplification.", "kind")
	writes := counters("foregate_usage_writes_total",
		"Attempts to write the tenants' usage to Redis, by result: ok, or error. After an error usage is kept in memory and written later.", "result")
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "foregate_usage_pending_requests",
		Help: "Requests whose usage is only in this replica's memory. It is lost if the replica ends while Redis does not answer.",
	}, pending)
	byRoute := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"route"}, labels...))
	}
	return &metrics{
		cost: byRoute("foregate_cost_usd_total",
			"Cost of the work for requests in US dollars, as receipts and usage have it, by what did it: the draft's backends (draft), the target's and fallbacks (target), audits at both (audit).", "part"),
		baseline: byRoute("foregate_baseline_usd_total", "What the target alone would have cost for the same requests, in US dollars."),
		unpriced: byRoute("foregate_unpriced_requests_total", "Requests whose cost is not counted, or not all of it, because prices were unknown."),
		saved: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_saved_usd", Help: "What drafts have saved since the start, in US dollars: foregate_baseline_usd_total less foregate_cost_usd_total. It falls where drafts and audits cost more than they save.",
		}, []string{"route"}),
		limited: counters("foregate_rate_limited_total", "Requests refused with 429 because of a tenant limit, by limit.",
			"limit", string(Requests), string(Tokens), string(Concurrency)),
		exhausted: counters("foregate_budget_refused_total",
			"Requests refused because of a tenant's budget: usd and tokens are exhausted budgets (429), uncounted is Redis away with on_redis_loss: deny (503).",
			"reason", "usd", "tokens", "uncounted"),
		limits: counters("foregate_limit_redis_total",
			"Requests of tenants with a limit per minute, by how they were counted: shared means in Redis and in time; every other result means by this replica alone.",
			"result", calls.Results...),
		budgets: counters("foregate_budget_redis_total",
			"Requests of tenants with a budget, by how they were counted: shared means in Redis and in time; every other result means by this replica alone.",
			"result", append([]string{resultRefilling}, calls.Results...)...),
		first: attempts.WithLabelValues("first"), retry: attempts.WithLabelValues("retry"),
		demoted:     counter("foregate_limit_demoted_total", "Requests of priority high that were served as normal because the tenant's limit.high_priority_share was used up."),
		dropped:     counter("foregate_limit_corrections_dropped_total", "Corrections of estimated token charges that could not be sent to Redis."),
		rowsWritten: writes.WithLabelValues("ok"), rowsFailed: writes.WithLabelValues("error"),
	}
}

// add counts the money of a request.
func (m *metrics) add(route string, c *Counts) {
	for _, part := range [...]struct {
		name string
		usd  Nanos
	}{{"draft", c.DraftUSD}, {"target", c.TargetUSD}, {"audit", c.AuditUSD}} {
		if part.usd > 0 {
			m.cost.WithLabelValues(route, part.name).Add(part.usd.USD())
		}
	}
	m.baseline.WithLabelValues(route).Add(c.TargetAloneUSD.USD())
	m.saved.WithLabelValues(route).Add(c.DraftsSaved.USD())
	m.unpriced.WithLabelValues(route).Add(float64(c.Unpriced))
}

// asked counts how a request's limits and budgets were counted.
func (m *metrics) asked(a *Request, limits, budgets string) {
	if a.Limit.perMinute() {
		m.limits.WithLabelValues(limits).Inc()
	}
	if len(a.Budgets) > 0 {
		m.budgets.WithLabelValues(budgets).Inc()
	}
}

// refused counts a refusal.
func (m *metrics) refused(err error) {
	switch e := err.(type) {
	case *LimitError:
		m.limited.WithLabelValues(string(e.Limit)).Inc()
	case *BudgetError:
		reason := "usd"
		if e.Uncounted {
			reason = "uncounted"
		} else if e.Budget.Tokens > 0 {
			reason = "tokens"
		}
		m.exhausted.WithLabelValues(reason).Inc()
	}
}

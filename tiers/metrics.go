package tiers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/internal/recent"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// metrics are the cascade's own. Labels come from the configuration or have a fixed set of values.
type metrics struct {
	acceptance   *prometheus.CounterVec
	drafted      *prometheus.CounterVec
	accepted     *prometheus.CounterVec
	acceptRate   *recent.Gauges
	tokens       *prometheus.CounterVec
	checks       *prometheus.CounterVec
	checkTook    *prometheus.HistogramVec
	scored       *prometheus.CounterVec
	failovers    *prometheus.CounterVec
	dropped      *prometheus.CounterVec
	served       *prometheus.CounterVec
	fallbacks    *prometheus.CounterVec
	fallbackUSD  *prometheus.CounterVec
	stayed       *prometheus.CounterVec
	applications *applicationMetrics
}

func newMetrics(reg prometheus.Registerer, now func() time.Time) *metrics {
	m := &metrics{
		applications: newApplicationMetrics(),
		acceptRate: recent.NewGauges("vllm_spec_acceptance_rate", "Share of the draft tokens judged in the last five minutes that went into answers, of this replica: "+
			"what foregate_accepted_tokens_total is of foregate_draft_tokens_total. Absent while none were judged.", now, false),
		acceptance:  counters("foregate_acceptance_total", "Requests by what became of their draft.", "route", "mode", "verdict", "reason"),
		drafted:     counters("foregate_draft_tokens_total", "Tokens drafted and judged.", "route"),
		accepted:    counters("foregate_accepted_tokens_total", "Judged draft tokens that went into answers.", "route"),
		tokens:      counters("foregate_tokens_total", "Tokens by tier and kind: of prompts (prompt), delivered to clients (delivered), drafted for nothing (wasted).", "tier", "kind"),
		checks:      counters("foregate_verifications_total", "Drafts about which the target was asked, by what it said.", "route", "scorer", "verdict", "reason"),
		scored:      counters("foregate_scored_tokens_total", "Tokens that the target computed to say what it thinks of drafts, their prompts included.", "route"),
		failovers:   counters("foregate_midstream_failovers_total", "Answers with which another backend carried on in the middle, by why.", "route", "reason"),
		dropped:     counters("foregate_audits_dropped_total", "Drafts that were to be audited and were not, before anybody knew what the target thinks of them, by why.", "route", "reason"),
		served:      counters("foregate_served_draft_checks_total", "Drafts that were served on their score and that the target was to check before the cache keeps them, by the result: passed, failed, or skipped where the target was not asked or did not answer. Only those that passed are kept.", "route", "result"),
		fallbacks:   counters("foregate_fallbacks_total", "Requests at fallbacks, by outcome: answered, failed before the first byte, broken off after it, or spent where the fallback had no dollars left in this hour and was not asked.", "route", "pool", "outcome"),
		fallbackUSD: counters("foregate_fallback_usd_total", "What fallbacks cost by their prices of tokens, in US dollars. An answer whose tokens are not known costs the most that it may have cost.", "route", "pool"),
		stayed:      counters("foregate_fallback_unused_total", "Requests whose own pools failed and that no fallback answered, on routes with fallbacks, by why.", "route", "reason"),
		checkTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "foregate_verification_seconds", Help: "Seconds that the target took for its word on a draft.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4},
		}, []string{"route"}),
	}
	if reg != nil {
		reg.MustRegister(m.applications.requests, m.applications.served, m.applications.audited)
		reg.MustRegister(m.dropped, m.served, m.fallbacks, m.fallbackUSD, m.stayed)
		reg.MustRegister(m.acceptance, m.drafted, m.accepted, m.acceptRate, m.tokens,
			m.checks, m.checkTook, m.scored, m.failovers)
	}
	return m
}

// counters returns a counter vector.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// countForwarded counts a request that was passed through.
func (m *metrics) countForwarded(rc *Receipt) {
	m.tokens.WithLabelValues(string(plan.Target), "prompt").Add(float64(rc.PromptTokens))
	m.tokens.WithLabelValues(string(plan.Target), "delivered").Add(float64(rc.TargetTokens))
}

// countCheck counts one check of a draft by the target.
func (m *metrics) countCheck(route string, c Check) {
	verdict := "disagrees"
	switch {
	case c.Pass:
		verdict = "agrees"
	case c.Reason != accept.ReasonTargetDisagrees:
		verdict = "none"
	}
	m.checks.WithLabelValues(route, string(c.Scorer), verdict, c.Reason).Inc()
	m.checkTook.WithLabelValues(route).Observe(c.Took.Seconds())
}

// countFallback counts an attempt at a fallback.
func (m *metrics) countFallback(rc *Receipt, pool string, usd float64, err error) {
	outcome := "answered"
	switch {
	case err != nil && rc.First == 0:
		outcome = "failed" // before its first byte
	case err != nil:
		outcome = "broken" // after it
	}
	m.fallbacks.WithLabelValues(rc.Route, pool, outcome).Inc()
	m.fallbackUSD.WithLabelValues(rc.Route, pool).Add(usd)
	m.tokens.WithLabelValues(string(plan.Fallback), "prompt").Add(float64(rc.PromptTokens))
	m.tokens.WithLabelValues(string(plan.Fallback), "delivered").Add(float64(rc.TargetTokens))
}

// countDroppedAudit counts an audit that ended without an outcome. After a panic its route is not known.
func (m *metrics) countDroppedAudit(route, why string) { m.dropped.WithLabelValues(route, why).Inc() }

// countOutcome counts a finished request.
func (m *metrics) countOutcome(rc *Receipt, mode plan.Mode) {
	verdict, reason := rc.Outcome()
	if rc.WasJudged() {
		m.drafted.WithLabelValues(rc.Route).Add(float64(rc.Verdict.Tokens))
		m.accepted.WithLabelValues(rc.Route).Add(float64(rc.AcceptedTokens))
		// An engine's own count may be of more tokens than were judged.
		m.acceptRate.Add(rc.Route, uint64(min(max(rc.AcceptedTokens, 0), rc.Verdict.Tokens)), uint64(rc.Verdict.Tokens))
		m.tokens.WithLabelValues(string(plan.Draft), "wasted").Add(float64(rc.WastedTokens))
	}
	for _, t := range rc.Failovers {
		m.failovers.WithLabelValues(rc.Route, t.Why).Inc()
	}
	m.scored.WithLabelValues(rc.Route).Add(float64(rc.ScoredTokens))
	m.acceptance.WithLabelValues(rc.Route, string(mode), verdict, reason).Inc()
	m.tokens.WithLabelValues(string(plan.Draft), "delivered").Add(float64(rc.AcceptedTokens))
	m.tokens.WithLabelValues(string(plan.Target), "delivered").Add(float64(rc.TargetTokens))
	if rc.Tier != "" {
		m.tokens.WithLabelValues(string(rc.Tier), "prompt").Add(float64(rc.PromptTokens))
	}
}

const (
	// maxLabelled is how many applications of a route have series of their own. The others share one, risk.Other.
	maxLabelled = 20
	// minLabelled is the least share of a route's requests that an application has series of its own from: one in so many, and
	// minSeen of them.
	minLabelled, minSeen = 50, 20
)

// applicationMetrics counts by application. It is safe for concurrent use.
type applicationMetrics struct {
	requests, served, audited *prometheus.CounterVec

	mu     sync.Mutex
	routes map[string]*labels // routes come from the configuration
}

// labels are the applications of a route that have series of their own.
type labels struct {
	seen risk.Sketch // of the requests
	own  map[string]bool
}

func newApplicationMetrics() *applicationMetrics {
	const which = "The 20 largest applications of a route have series of their own, with the name that operators gave or the fingerprint; the others are other. Only requests of the modes risk and shadow are told apart, and those of routes with a setting for an application."
	return &applicationMetrics{
		routes:   map[string]*labels{},
		requests: counters("foregate_application_requests_total", "Requests by application. "+which, "route", "application"),
		served:   counters("foregate_application_served_total", "Requests of foregate_application_requests_total whose answer is a draft.", "route", "application"),
		audited:  counters("foregate_application_audited_drafts_total", "Drafts that audits stand for, by whether the target stands by them (agrees: yes, no): an audit that is drawn with a chance of 1 in 20 counts for 20. The share of yes is the agreement.", "route", "application", "agrees"),
	}
}

// label returns the application by which a request is counted, "" if none is known. first says that the request is counted
// for the first time. An application has its label as long as it is large, so that its counters only grow.
func (m *applicationMetrics) label(r *Request, first bool) string {
	name := r.ApplicationName
	if name == "" {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.routes[r.Body.Model]
	if l == nil {
		l = &labels{own: map[string]bool{}}
		m.routes[r.Body.Model] = l
	}
	if first {
		l.seen.Add(name)
	}
	n := l.seen.Counts[name]
	switch {
	case l.own[name]:
		return name
	case n < minSeen || minLabelled*n < l.seen.Total:
		return risk.Other
	case len(l.own) >= maxLabelled:
		least := slices.MinFunc(slices.Sorted(maps.Keys(l.own)), func(a, b string) int { return l.seen.Counts[a] - l.seen.Counts[b] })
		if 2*l.seen.Counts[least] > n {
			return risk.Other
		}
		delete(l.own, least)
		for _, c := range []*prometheus.CounterVec{m.requests, m.served, m.audited} {
			c.DeletePartialMatch(prometheus.Labels{"route": r.Body.Model, "application": least})
		}
	}
	l.own[name] = true
	return name
}

// count counts a finished request.
func (m *applicationMetrics) count(r *Request) {
	name := m.label(r, true)
	if name == "" {
		return
	}
	m.requests.WithLabelValues(r.Body.Model, name).Inc()
	if r.WasJudged() && r.Tier == plan.Draft && r.Verdict.Accept {
		m.served.WithLabelValues(r.Body.Model, name).Inc()
	}
}

// countAudit counts an audit that was drawn with a chance.
func (m *applicationMetrics) countAudit(r *Request, chance float64, good bool) {
	name := m.label(r, false)
	if name == "" || chance <= 0 {
		return
	}
	agrees := "no"
	if good {
		agrees = "yes"
	}
	m.audited.WithLabelValues(r.Body.Model, name, agrees).Add(1 / chance)
}

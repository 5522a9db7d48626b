package tiers

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

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

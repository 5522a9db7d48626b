package tiers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/foregate/foregate/internal/recent"
)

var descAcceptRate = prometheus.NewDesc("vllm_spec_acceptance_rate",
	"Share of the draft tokens judged in the last five minutes that went into answers, of this replica: "+
		"what foregate_accepted_tokens_total is of foregate_draft_tokens_total. Absent while none were judged.", []string{"route"}, nil)

// acceptRate measures the acceptance rate of each route in tokens, as engines report vLLM's own. The configuration
// bounds the number of routes.
type acceptRate struct {
	now func() time.Time

	mu     sync.Mutex
	routes map[string]*recent.Ratio
}

// add counts a draft: the judged tokens, and those that became part of the answer.
func (a *acceptRate) add(route string, accepted, judged int) {
	if judged <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.routes[route]
	if s == nil {
		s = new(recent.Ratio)
		a.routes[route] = s
	}
	// An engine's own count may be of more tokens than were judged.
	s.Add(a.now(), uint64(min(max(accepted, 0), judged)), uint64(judged))
}

// Describe implements [prometheus.Collector].
func (a *acceptRate) Describe(to chan<- *prometheus.Desc) { to <- descAcceptRate }

// Collect implements [prometheus.Collector]. It does not block add.
func (a *acceptRate) Collect(to chan<- prometheus.Metric) {
	for _, m := range a.gather() {
		to <- m
	}
}

func (a *acceptRate) gather() (all []prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for route, s := range a.routes {
		if rate, ok := s.Value(a.now()); ok {
			all = append(all, prometheus.MustNewConstMetric(descAcceptRate, prometheus.GaugeValue, rate, route))
		}
	}
	return all
}

package cache

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/foregate/foregate/internal/golden"
)

// gathered is what Prometheus would read.
func gathered(t *testing.T, reg *prometheus.Registry) []byte {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	var text bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		must(t, err)
	}
	return text.Bytes()
}

func TestWhatIsCountedIsToldToPrometheusAndToOperators(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := NewStore(Options{Registerer: reg})
	e := &Entry{Prompt: 100, Accepted: 30, Target: 20, USD: 0.25}
	for r, n := range map[Result]int{ResultHit: 3, ResultLocal: 2, ResultCoalesced: 1, ResultMiss: 4, ResultBypass: 5, ResultAway: 1, ResultLate: 1, ResultError: 0} {
		for range n {
			if r == ResultHit || r == ResultLocal || r == ResultCoalesced {
				s.Count("llama-3", r, e)
			} else {
				s.Count("llama-3", r, nil)
			}
		}
	}
	s.metrics.refused.WithLabelValues(refusedDamaged).Inc()
	s.metrics.dropped.WithLabelValues(droppedQueue).Inc()
	golden.Check(t, "testdata/metrics.txt", string(gathered(t, reg)))
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if got := s.Totals(); got != (Totals{Requests: 12, Served: 6, SavedTokens: 6 * 150, SavedUSD: 1.5}) {
		t.Errorf("%+v", got)
	}
}

package tiers

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/recent"
	"github.com/foregate/foregate/tiers/plan"
)

// rates are the acceptance rates that a registry shows, by route.
func rates(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "vllm_spec_acceptance_rate" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

func TestTheAcceptanceRateIsShownByRouteWhileDraftsAreJudged(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	now := time.Now()
	m := newMetrics(reg, func() time.Time { return now })
	if got := rates(t, reg); len(got) != 0 {
		t.Errorf("before any draft: %v", got)
	}
	draft := func(route string, judged, accepted int) {
		rc := &Receipt{Route: route, AcceptedTokens: accepted}
		rc.Verdict.Tokens, rc.Verdict.Reason = judged, "confident"
		m.countOutcome(rc, plan.ModeConfidence)
	}
	draft("a", 100, 100)
	draft("a", 100, 0)
	draft("b", 16, 17)                                        // an engine counts one more
	m.countOutcome(&Receipt{Route: "c"}, plan.ModeConfidence) // nothing was judged
	if got := rates(t, reg); len(got) != 2 || got["a"] != 0.5 || got["b"] != 1 {
		t.Errorf("got %v, want half of a's tokens and all of b's", got)
	}
	now = now.Add(recent.Window)
	draft("a", 10, 1)
	if got := rates(t, reg); len(got) != 1 || math.Abs(got["a"]-0.1) > 1e-9 {
		t.Errorf("five minutes later: %v, want a tenth of a's tokens and no b", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

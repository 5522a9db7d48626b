package planner

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/live"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/virtual"
)

// Predicted beside seen: simulators, three replicas and a real Redis, in the time of the wall. FOREGATE_BINARY is the gateway's:
//
//	make build && FOREGATE_BINARY=$PWD/bin/foregate .ci/with-redis go test -run LiveProcesses -v -timeout 30m ./loadtest/planner
func TestAPlanPredictsWhatLiveProcessesShow(t *testing.T) {
	binary := os.Getenv("FOREGATE_BINARY")
	if binary == "" {
		t.Skip("without FOREGATE_BINARY")
	}
	figures := []struct {
		name  string
		of    func(*loadtest.Row) float64
		limit float64 // of the median error; 0 is none
	}{
		{"TTFT p50 ms", func(r *loadtest.Row) float64 { return r.TTFT50 }, 0.15},
		{"TTFT p99 ms", func(r *loadtest.Row) float64 { return r.TTFT99 }, 0.3},
		{"E2E p50 ms", func(r *loadtest.Row) float64 { return r.E2E50 }, 0.15},
		{"E2E p99 ms", func(r *loadtest.Row) float64 { return r.E2E99 }, 0.3},
		{"tokens/s", func(r *loadtest.Row) float64 { return r.TokensPerSecond }, 0.15},
		{"draft tokens", func(r *loadtest.Row) float64 { return r.DraftTokenShare }, 0}, // more than are seen, see docs/measurements.md
		{"rent $/M", func(r *loadtest.Row) float64 { return r.RentPerMTok }, 0.15},
	}
	errors := map[string][]float64{}
	small, large := market(t, "llama-3.1-8b", "none"), market(t, "llama-3.1-70b", "llama-3.1-8b")
	for _, f := range []struct {
		market        *Market
		target, draft fleets.Engines
		load          trace.Load
	}{
		{&small, fleets.Engines{Profile: "l4-8b-fp8", Count: 1}, fleets.Engines{}, trace.Load{Rate: 2, Prompt: 400, Output: 40}},
		{&small, fleets.Engines{Profile: "l4-8b-fp8", Count: 2}, fleets.Engines{}, trace.Load{Rate: 2.5, Prompt: 300, Output: 40, Shared: 200}},
		{&small, fleets.Engines{Profile: "a10g-8b", Count: 2}, fleets.Engines{}, trace.Load{Rate: 2.5, Prompt: 300, Output: 60, Repeats: 0.2}},
		{&large, fleets.Engines{Profile: "h100-70b-fp8-tp2", Count: 1}, fleets.Engines{Profile: "l40s-8b-fp8", Count: 1}, trace.Load{Rate: 2.5, Prompt: 300, Output: 80}},
	} {
		f.load.For = 110 * time.Second
		tr, err := trace.Describe(f.load)
		if err != nil {
			t.Fatal(err)
		}
		c := Candidate{Target: f.target, Draft: f.draft}
		l := &lab{market: f.market, requests: tr.Requests, growth: 1, maxDisagreement: 0.1}
		s, k := l.at(&c, 0.34)
		s.TimeScale, k.Replicas = 1, 3
		if f.draft.Count > 0 { // mode risk would need an hour of audits
			k.Settings["speculation.mode"], k.Settings["speculation.threshold_nats"] = "confidence", "0.02"
		}
		predicted, _, err := new(virtual.Earlier).Run(t.Context(), s, k, 1)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := live.Run(t.Context(), live.Options{Scenario: s, Case: k, Seed: 1, Gateway: binary, Note: func(text string) { t.Log(text) }})
		if err != nil {
			t.Fatal(err)
		}
		a, b := predicted.Row(), seen.Row()
		t.Logf("%s, %d requests; lost %d and %d", c, b.Requests, a.Errors+a.Shed, b.Errors+b.Shed)
		for _, x := range figures {
			off := x.of(&a)/x.of(&b) - 1
			if x.of(&a) == 0 && x.of(&b) == 0 {
				continue // a fleet without drafts
			}
			errors[x.name] = append(errors[x.name], math.Abs(off))
			t.Logf("| %s | %s | %.4g | %.4g | %+.0f %% |", c, x.name, x.of(&a), x.of(&b), 100*off)
		}
	}
	for _, x := range figures {
		all := slices.Sorted(slices.Values(errors[x.name]))
		if median := all[len(all)/2]; x.limit > 0 && median > x.limit {
			t.Errorf("%s: the median error is %s", x.name, fmt.Sprintf("%.0f %%", 100*median))
		}
	}
}

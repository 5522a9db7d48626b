package planner

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// options plan for a load of short answers of an 8B, which takes little to simulate.
func options(t testing.TB, rate float64, bounds string) Options {
	t.Helper()
	tr, err := trace.Describe(trace.Load{Rate: rate, Prompt: 300, Output: 20, Repeats: 0.2, Shared: 50, For: 90 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	m := market(t, "llama-3.1-8b", "none")
	m.Targets = slices.DeleteFunc(m.Targets, func(p vllmsim.Profile) bool { return p.GPU != "L4" })
	return Options{Trace: tr, SLO: *slo(t, bounds), Market: m, MaxDisagreement: 0.1, Growth: 1, Seeds: 2, Workers: 2}
}

func TestTheCheapestFleetHoldsAndTheNextSmallerOneDoesNot(t *testing.T) {
	o := options(t, 12, "ttft_p99=1s,e2e_p99=6s")
	var mu sync.Mutex
	var told []string
	o.Progress = func(text string) { mu.Lock(); told = append(told, text); mu.Unlock() }
	a, err := Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	best := a.Fleets[0]
	if best.Fails != "" || best.Seeds != 2 || best.TTFT99.High > 1000 || best.E2E99.High > 6000 || best.Lost.High > 0 || best.PerMTok.Mean <= 0 || best.Priced.Mean <= 0 {
		t.Errorf("%s of %d fleets: %d seeds, %+v, %+v, %+v, %+v, fails %q", best.Name, len(a.Fleets), best.Seeds, best.TTFT99, best.E2E99, best.Lost, best.PerMTok, best.Fails)
	}
	whys := ""
	for _, f := range a.Rivals {
		whys += f.Why + "; "
		if f.Why == "a server fewer" && f.Fails == "" {
			t.Errorf("%s holds, which is smaller than %s", f.Name, best.Name)
		}
	}
	if !strings.Contains(whys, "without the cache") || !strings.Contains(whys, "without routing by prefixes") {
		t.Errorf("it is held against %s", whys)
	}
	if len(told) == 0 || !strings.Contains(told[0], "to come in") {
		t.Errorf("progress: %q", told)
	}
	text := a.Text()
	for _, want := range []string{"Fleets that hold the SLO", best.Name, "Simulated: all", "Drafts were not looked at."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptedPlanTellsWhatIsKnown(t *testing.T) {
	o := options(t, 12, "ttft_p99=1s")
	ctx, cancel := context.WithCancel(t.Context())
	o.Workers, o.Progress = 1, func(text string) {
		if strings.Contains(text, "holds") {
			cancel()
		}
	}
	a, err := Plan(ctx, o)
	if err != nil || !a.Interrupted || len(a.Fleets) == 0 || !strings.Contains(a.Text(), "Interrupted: this is what is known.") {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAnSLOThatNothingHoldsIsExplained(t *testing.T) {
	if _, err := Plan(t.Context(), options(t, 4, "ttft_p99=1ms")); err == nil || !strings.Contains(err.Error(), "by arithmetic:\n") || !strings.Contains(err.Error(), "without any other load ttft_p99 is") {
		t.Errorf("%v", err)
	}
	_, err := Plan(t.Context(), options(t, 4, "e2e_p99=3540ms")) // one that has the engine to itself holds it
	if err == nil || !strings.Contains(err.Error(), "times that a part failed: map[e2e_p99:") || !strings.Contains(err.Error(), "and would hold ttft_p99=") {
		t.Errorf("%v", err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--spare":            func(o *Options) { o.Market.Away = -1 },
		"--growth":           func(o *Options) { o.Growth = -1 },
		"--max-disagreement": func(o *Options) { o.MaxDisagreement = 0 },
		"--seeds":            func(o *Options) { o.Seeds = 0 },
		"--acceptance":       func(o *Options) { o.Acceptance = []float64{-0.5} },
	} {
		o := options(t, 4, "ttft_p99=1s")
		change(&o)
		if _, err := Plan(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAFleetWithASpareHoldsWithAServerAway(t *testing.T) {
	o := options(t, 12, "ttft_p99=1s,e2e_p99=6s")
	o.Seeds = 1
	without, err := Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Market.Away = 1
	a, err := Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	few, got := without.Fleets[0], a.Fleets[0]
	if got.Target.Count != few.Target.Count+1 || got.TTFT99 != few.TTFT99 || got.PerMTok.Mean <= few.PerMTok.Mean || !strings.Contains(a.Text(), "with 1 of the servers of each pool away") {
		t.Errorf("%s with TTFT %+v and %+v $/M; without a spare %s with %+v and %+v", got.Name, got.TTFT99, got.PerMTok, few.Name, few.TTFT99, few.PerMTok)
	}
}

func TestThePageShowsTheFleetsAndLoadsNothing(t *testing.T) {
	a := &Answer{Summary: trace.Summary{Format: "a <trace>", ByMinute: []float64{1, 2.5}, ByHour: []float64{2}}, Fleets: []Fleet{
		{Name: "1 × a", USDPerHour: 3, TTFT50: Range{100, 90, 110}, TTFT99: Range{900, 800, 1000}},
	}, Rivals: []Fleet{{Name: "0 × a", Why: "a server fewer", Fails: "ttft_p99"}}}
	got, err := a.Page("ttft_p99=1s,e2e_p99=30s")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<b>ttft_p99=1s</b>, <b>e2e_p99=30s</b>", "1 × a", "0.90 (0.80–1.00)", "fails ttft_p99", "a &lt;trace&gt;", "minute 2: 2.50 requests a second"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "http") || strings.Contains(got, "ZgotmplZ") {
		t.Errorf("it loads something, or a value was refused:\n%s", got)
	}
	if _, err := (&Answer{}).Page("ttft_p99=1s"); err != nil {
		t.Error(err)
	}
}

// What audits have shown of two models holds for all servers of these models.
func TestAFleetBeginsWithTheEvidenceOfOtherServersOfItsModels(t *testing.T) {
	m := market(t, "llama-3.1-70b", "llama-3.1-8b")
	tr, err := trace.Describe(trace.Load{Rate: 20, Prompt: 200, Output: 40, For: 70 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{market: &m, requests: tr.Requests, growth: 1, maxDisagreement: 0.1, slo: &loadtest.SLO{Lost: 1}, evidence: map[float64]*evidence{}}
	last := func(all []vllmsim.Profile) fleets.Engines {
		return fleets.Engines{Profile: all[len(all)-1].Name, Count: 8}
	}
	row, _, err := l.run(t.Context(), &Candidate{Target: last(m.Targets), Draft: last(m.Drafts), Acceptance: 0.7}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if row.Acceptance < 0.5 || row.CheckedDisagreement > 0.1 {
		t.Errorf("%.2f of the drafts are accepted, with a disagreement of %.2f", row.Acceptance, row.CheckedDisagreement)
	}
}

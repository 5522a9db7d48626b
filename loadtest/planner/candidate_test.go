package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// market has two models, for AWS' prices.
func market(t testing.TB, target, draft string) Market {
	t.Helper()
	prices, err := vllmsim.Prices()
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := NewMarket(target, draft, prices[0])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// demand is that of a request each 1/perSecond seconds, for a minute.
func demand(perSecond float64, prompt, output int) Demand {
	var all []loadtest.Given
	for i := range int(60 * perSecond) {
		all = append(all, loadtest.Given{At: time.Duration(float64(i) / perSecond * 1e9), Prompt: prompt, Output: output, Words: i})
	}
	return DemandOf(all, 1)
}

func slo(t testing.TB, text string) *loadtest.SLO {
	t.Helper()
	s, err := loadtest.ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestADemandLeavesOutWhatTheCacheAnswersAndEnginesKeep(t *testing.T) {
	d := DemandOf([]loadtest.Given{
		{Prompt: 100, Output: 10, Words: 1, Prefix: 1, Shared: 60}, {Prompt: 100, Output: 10, Words: 1, Prefix: 1, Shared: 60},
		{Prompt: 100, Output: 30, Words: 2, Prefix: 1, Shared: 60}, {At: 10 * time.Second, Prompt: 5000, Output: 20, Words: 3},
	}, 2)
	if d.PerSecond != 0.6 || d.Prompt != (100+40+5000)/3. || d.Output != 20 || d.Context != 5200/3. || d.Draftable != 2/3. {
		t.Errorf("%+v", d)
	}
}

func TestArithmeticLeavesOutWhatCannotHold(t *testing.T) {
	for _, c := range []struct {
		name      string
		perSecond float64
		prompt    int
		slo       string
		first     string // the cheapest candidate; "" is none
		reason    string
	}{
		{"a small load", 1, 500, "ttft_p99=2s", "1 × h200-70b-fp8", ""},
		{"a large load", 60, 500, "ttft_p99=2s", "4 × b200-70b-fp8", ""},
		{"too large a load", 2000, 500, "ttft_p99=2s", "", "servers are needed at least, more than the 64"},
		{"long prompts", 1, 20_000, "ttft_p99=2s", "2 × b200-70b-fp8", "h200-70b-fp8: without any other load ttft_p99 is 3.253s, more than 2s"},
		{"a bound that nothing holds", 1, 500, "ttft_p99=10ms", "", "h200-70b-fp8: without any other load ttft_p99 is 104ms, more than 10ms"},
		{"answers that take long", 1, 500, "e2e_p50=5s", "1 × b200-70b-fp8", "h100-70b-fp8-tp2: without any other load e2e_p50 is 5."},
	} {
		m, d := market(t, "llama-3.1-70b", "none"), demand(c.perSecond, c.prompt, 300)
		got, reasons := m.Alone(&d, slo(t, c.slo))
		first := ""
		if len(got) > 0 {
			first = got[0].String()
		}
		if first != c.first || c.reason != "" && !strings.Contains(strings.Join(reasons, "\n"), c.reason) {
			t.Errorf("%s: %q, want %q; left out: %q", c.name, first, c.first, reasons)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Rent < got[i-1].Rent {
				t.Errorf("%s: %s comes after %s", c.name, got[i], got[i-1])
			}
		}
	}
}

func TestFleetsWithDraftsCostLessThanThoseWithout(t *testing.T) {
	m, d := market(t, "llama-3.1-70b", "llama-3.1-8b"), demand(60, 500, 300)
	reasons := m.keepDrafts(&d)
	if len(m.Drafts) != maxDraftKinds || m.Drafts[0].Name != "h100-8b-fp8" || len(reasons) != 4 {
		t.Errorf("%d kinds of drafts, the first is %s; left out: %q", len(m.Drafts), m.Drafts[0].Name, reasons)
	}
	few := len(m.WithDrafts(&d, slo(t, "ttft_p99=2s"), 0.3, 60))
	all := m.WithDrafts(&d, slo(t, "ttft_p99=2s"), 0.7, 60)
	if len(all) <= few || few == 0 {
		t.Errorf("%d fleets with an acceptance of .7, %d with .3", len(all), few)
	}
	scarce := 0
	for _, c := range all {
		if c.Scarce {
			scarce++
		}
		if c.Rent >= 60 || c.Draft.Count == 0 || c.Acceptance != 0.7 || c.Rent != m.rent(c.Target)+m.rent(c.Draft) {
			t.Errorf("%+v", c)
		}
	}
	if 2*scarce != len(all) {
		t.Errorf("%d of %d draft only when the target is scarce", scarce, len(all))
	}
}

func TestAMarketHasWhatHasAPrice(t *testing.T) {
	m, reasons, err := NewMarket("llama-3.1-70b", "llama-3.1-8b", vllmsim.PriceList{USDPerGPUHour: map[string]float64{"H100": 2}})
	if err != nil || len(m.Targets) != 2 || len(m.Drafts) != 2 || !strings.Contains(strings.Join(reasons, "\n"), "a10g-8b: the prices have no A10G") {
		t.Errorf("%+v, %q, %v", m, reasons, err)
	}
	for _, c := range []struct{ target, draft, gpu, want string }{
		{"llama-9", "none", "H100", "no profile has the model llama-9; known: gpt-oss-120b"},
		{"llama-3.1-70b", "none", "L4", "no server for llama-3.1-70b has a price"}, {"llama-3.1-70b", "x", "H100", "no profile has the model x"},
	} {
		if _, _, err := NewMarket(c.target, c.draft, vllmsim.PriceList{USDPerGPUHour: map[string]float64{c.gpu: 2}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTheSettingsOfACandidateAreItsParts(t *testing.T) {
	c := Candidate{Scarce: true, NoCache: true, NoFit: true}
	c.Draft.Count = 1
	got := c.Settings(0.05)
	for name, want := range map[string]string{"speculation.mode": "risk", "risk.max_disagreement": "0.05", "speculation.when": "scarce", "cache.mode": "off", "route.policy": "round_robin"} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if alone := (&Candidate{}).Settings(0.05); len(alone) != 1 || alone["speculation.mode"] != "off" {
		t.Errorf("%v", alone)
	}
}

package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/golden"
)

// made is a report with so many cases, made up but plausible.
func made(cases int) *Report {
	names := []string{
		"round robin", "prefix-aware", "prefix-aware + <cache>", "speculative", "speculative, overcommitted to 0.95",
		"all, with a draft pool that is far too small", "verylongnamewithoutanyplacetobreakit", "all & then some",
	}
	r := &Report{
		Scenario: &Scenario{
			Name:  "everything",
			About: "Thirty users with 4,000-token contexts on eight GPUs, as a published comparison has it. What does each part of the gateway add, and what does it cost?",
		},
		Seed: 7, Kind: Virtual, Command: "loadtest run scenarios/everything.yaml --virtual --seed 7",
		Notes: []string{"Speeds are those of the profiles, which were fitted to published figures and not measured here; a real backend may differ by a third either way."},
	}
	for i := range cases {
		name := names[i%len(names)]
		if i >= len(names) {
			name = fmt.Sprint(name, " ", i)
		}
		r.Results = append(r.Results, madeResult(name, i))
	}
	return r
}

func newRand(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 3)) }

// madeResult is a result that gets better with n.
func madeResult(name string, n int) *Result {
	rng := newRand(n)
	r := &Result{Case: name, Window: 9 * time.Minute, Recorder: NewRecorder(time.Minute)}
	for i := range 6000 {
		o := madeOutcome(rng, n)
		o.At = time.Duration(i) * 100 * time.Millisecond
		o.First += o.At
		o.Done += o.At
		r.Recorder.Add(o)
	}
	r.Pools = []Usage{{
		Tier: "target", Backends: 8, GPUs: 4, USDPerHour: 12, Busy: 40 * time.Minute / time.Duration(n+1),
		PrefixQueries: 20_000_000, PrefixHits: 2_500_000 * min(n+1, 7), Preemptions: 1200 / (n + 1), OOMDeaths: max(2-n, 0),
	}}
	if n >= 3 {
		r.Pools = append(r.Pools, Usage{Tier: "draft", Backends: 4, GPUs: 1, USDPerHour: 0.9, Busy: 25 * time.Minute})
	}
	r.PeakKV = 1 - 0.05*float64(n)
	return r
}

func madeOutcome(rng *rand.Rand, n int) Outcome {
	ms := func(median, spread float64) time.Duration {
		return time.Duration(median * math.Exp(rng.NormFloat64()*spread) * float64(time.Millisecond))
	}
	o := Outcome{
		End: Answered, Tenant: []string{"acme", "globex", "initech"}[rng.IntN(3)], Priority: []string{"high", "normal", "low"}[rng.IntN(3)],
		Tier: "target", Acceptance: "bypassed", Reason: "no draft pool", PromptTokens: 4000, TargetTokens: 200,
	}
	o.First = ms(480/float64(n+1), 0.5)
	o.Done = o.First + ms(2500, 0.3)
	switch p := rng.Float64(); {
	case p < 0.03 && o.Priority == "low":
		o.End, o.Detail, o.First, o.Done = Shed, "kv_pressure", 0, time.Millisecond
	case p < 0.035/float64(n+1):
		o.End, o.Detail, o.First = Failed, []string{"connection refused", "timeout", "no backend"}[rng.IntN(3)], 0
	case p < 0.037/float64(n+1):
		o.End, o.Detail = Broken, "stream ended early"
	case p < 0.2 && n >= 2:
		o.Cached, o.First, o.Done = true, ms(2, 0.2), ms(4, 0.2)
	case p < 0.8 && n >= 3:
		o.Tier, o.Acceptance, o.Reason, o.DraftTokens, o.TargetTokens = "draft", "accepted", "score", 200, 0
		o.Checked = p < 0.5
		o.Identical, o.Wrong = rng.Float64() < 0.9, rng.Float64() < 0.006
	case n >= 3:
		o.Tier, o.Acceptance, o.Reason = "mixed", "rejected", "score"
	}
	return o
}

func TestTablesAreAsInTheGoldenFiles(t *testing.T) {
	for _, n := range []int{0, 2, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			golden.Check(t, fmt.Sprintf("testdata/report_%d.txt", n), made(n).Table())
		})
	}
	empty := &Report{Results: []*Result{{Case: "nothing came"}, {Case: "nor here"}}}
	golden.Check(t, "testdata/report_empty.txt", empty.Table())
}

func TestJSONIsAsInTheGoldenFile(t *testing.T) {
	got, err := made(2).JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report_2.json", string(got))
}

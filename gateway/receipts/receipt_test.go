package receipts

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/internal/golden"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// wholeReceipt has something in every field.
func wholeReceipt() *Receipt {
	f := &Receipt{
		ID: "5d41402abc4b2a76b9719d911017c592", Client: "order-7", Tenant: "acme", Route: "llama-3", Priority: "high", Time: noon, Took: 1500 * time.Millisecond, Lookup: 700 * time.Microsecond,
		Trace: "4bf90000000000000000000000000036", Limits: 400 * time.Microsecond, Code: 597, Cache: "miss", Error: "cut", TargetPool: "big", DivertedFrom: "new",
		Settings: Settings{"confidence", 32, 1200 * time.Millisecond, true, true, 0.02}, Prices: economy.Prices{DraftPrefill: 1e-8, DraftDecode: 1e-7, TargetPrefill: 2e-7, TargetDecode: 2e-6}, Dropped: []string{"truncation", "tools[4] web_search"},
	}
	f.Answer(&tiers.Receipt{
		Route: "llama-3", Began: noon.Add(1200 * time.Microsecond),
		Decision: plan.Decision{
			Plan: plan.Plan{Tier: plan.Draft, Judged: true, Reason: "draft_full", Mode: plan.ModeConfidence, Whole: true, Scorer: plan.ScorerIDs}, Accept: accept.Config{Threshold: 0.1},
			Estimate: economy.Estimate{Prompt: 300, Output: 150, Holdback: 32, Acceptance: 0.75, Samples: 41.5, TargetUSD: 0.00036, DraftUSD: 0.00022, BreakEven: 0.125, Explored: true}},
		Tries: []dispatch.Try{
			{Pool: "small", Backend: "10.0.0.7-8000", Role: dispatch.RoleDraft, Broke: engine.Cut, Waited: time.Millisecond, At: 1100 * time.Microsecond, First: 80 * time.Millisecond, Took: 512 * time.Millisecond, Status: 200, Tokens: 57, Call: "1z"},
			{Pool: "big", Backend: "10.0.1.7-8000", Failed: engine.Timeout, Score: true, Role: dispatch.RoleScore, At: 300 * time.Millisecond, Took: 61234567},
		},
		Verdict: accept.Verdict{Reason: accept.ReasonScore, Score: -0.31, Tokens: 57}, Judged: 513 * time.Millisecond,
		ScoreSeries: []accept.ScorePoint{{Tokens: 8, Score: 0.2}, {Tokens: 32, Score: -0.05}, {Tokens: 57, Score: -0.31}},
		Checks:      []tiers.Check{{Scorer: plan.ScorerIDs, Backend: "10.0.1.7-8000", Tokens: 32, Kept: 32, Pass: true, Score: -0.04, Reason: accept.ReasonTargetAgrees, At: 300 * time.Millisecond, Took: 61234567}},
		Failovers:   []tiers.Failover{{Why: accept.ReasonScore, Tokens: 56, Bytes: 231, At: 514 * time.Millisecond}},
		Tier:        plan.Mixed, Finish: "stop", PromptTokens: 301, AcceptedTokens: 56, TargetTokens: 94, WastedTokens: 1, DraftedTokens: 57, ScoredTokens: 333, Committed: 32,
		USD: 0.00031, DraftUSD: 0.00012, SavedUSD: 0.00005, Waited: time.Millisecond, Draft: 512 * time.Millisecond, Verify: 61234567, Target: 300 * time.Millisecond, First: 433 * time.Millisecond,
	}, nil)
	return f
}

// TestTheFormOfAReceipt is what tools rely on: fields may come, and none may change or go.
func TestTheFormOfAReceipt(t *testing.T) {
	const file = "testdata/receipt.golden.json"
	whole := wholeReceipt()
	hit := &Receipt{ID: "7d793037a0760186574b0282f2f435e7", Route: "llama-3", Priority: "low", Time: noon, Took: time.Millisecond, Code: 200, Cache: "hit", Lookup: 500 * time.Microsecond}
	hit.Answer(nil, &cache.Entry{Tier: "draft", Finish: "stop", Prompt: 301, Accepted: 150, USD: 0.00031})
	got := string(whole.Encode()) + "\n" + string(hit.Encode()) + "\n"
	golden.Check(t, file, got)
}

func TestTheNewestReceiptsAreKept(t *testing.T) {
	var r Ring
	all := func(*Receipt) bool { return true }
	if got := r.Last(5, all); len(got) != 0 {
		t.Errorf("%d receipts of nothing", len(got))
	}
	for i := range Kept + 7 {
		r.Add(&Receipt{ID: fmt.Sprint(i)})
	}
	got := r.Last(Kept, all)
	if len(got) != Kept || got[0].ID != "7" || got[Kept-1].ID != fmt.Sprint(Kept+6) {
		t.Errorf("%d receipts, from %s to %s", len(got), got[0].ID, got[len(got)-1].ID)
	}
	odd := r.Last(2, func(f *Receipt) bool { return f.ID[len(f.ID)-1]%2 == 1 })
	if len(odd) != 2 || odd[0].ID != "1003" || odd[1].ID != "1005" {
		t.Errorf("%v", odd)
	}
}

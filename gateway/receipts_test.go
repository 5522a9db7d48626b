package gateway

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// wholeReceipt has something in every field.
func wholeReceipt() keptReceipt {
	return keptReceipt{
		id: "5d41402abc4b2a76b9719d911017c592", client: "order-7", tenant: "acme", route: "llama-3", class: identity.High, time: noon, total: 1500 * time.Millisecond, lookup: 700 * time.Microsecond, trace: [16]byte{0x4b, 0xf9, 15: 0x36}, limits: 400 * time.Microsecond,
		code: 597, cache: cache.ResultMiss, problem: "cut", target: "big", diverted: "new",
		rules:   receiptSettings{plan.ModeConfidence, 32, 1200 * time.Millisecond, true, true, 0.02},
		prices:  pricesJSON{1e-8, 1e-7, 2e-7, 2e-6},
		dropped: []string{"truncation", "tools[4] web_search"},
		receipt: &receipt.Receipt{
			Route: "llama-3", Began: noon.Add(1200 * time.Microsecond),
			Plan: plan.Plan{Tier: plan.Draft, Judged: true, Reason: "draft_full", Mode: plan.ModeConfidence, Whole: true, Scorer: plan.ScorerIDs,
				Estimate: economy.Estimate{Prompt: 300, Output: 150, Holdback: 32, Acceptance: 0.75, Samples: 41.5, TargetUSD: 0.00036, DraftUSD: 0.00022, BreakEven: 0.125, Explored: true}},
			Tries: []dispatch.Try{
				{Pool: "small", Backend: "10.0.0.7-8000", Role: dispatch.RoleDraft, Broke: engine.Cut, Waited: time.Millisecond, At: 1100 * time.Microsecond, First: 80 * time.Millisecond, Took: 512 * time.Millisecond, Status: 200, Tokens: 57, Call: 71},
				{Pool: "big", Backend: "10.0.1.7-8000", Failed: engine.Timeout, Score: true, Role: dispatch.RoleScore, At: 300 * time.Millisecond, Took: 61234567},
			},
			Verdict: accept.Verdict{Reason: accept.ReasonScore, Score: -0.31, Tokens: 57}, Judged: 513 * time.Millisecond, Needed: 0.1,
			ScoreSeries: []accept.ScorePoint{{Tokens: 8, Score: 0.2}, {Tokens: 32, Score: -0.05}, {Tokens: 57, Score: -0.31}},
			Checks:      []receipt.Check{{Scorer: plan.ScorerIDs, Backend: "10.0.1.7-8000", Tokens: 32, Kept: 32, Pass: true, Score: -0.04, Reason: accept.ReasonTargetAgrees, At: 300 * time.Millisecond, Took: 61234567}},
			Failovers:   []receipt.Failover{{Why: accept.ReasonScore, Tokens: 56, Bytes: 231, At: 514 * time.Millisecond}},
			Tier:        plan.Mixed, Finish: "stop", PromptTokens: 301, AcceptedTokens: 56, TargetTokens: 94, WastedTokens: 1, DraftedTokens: 57, ScoredTokens: 333, Committed: 32,
			USD: 0.00031, DraftUSD: 0.00012, TargetAloneUSD: 0.00036, SpentUSD: 0.00029, Waited: time.Millisecond, Draft: 512 * time.Millisecond, Verify: 61234567, Target: 300 * time.Millisecond, First: 433 * time.Millisecond,
		},
	}
}

// TestTheFormOfAReceipt is what tools rely on: fields may come, and none may change or go.
func TestTheFormOfAReceipt(t *testing.T) {
	const file = "testdata/receipt.golden.json"
	whole := wholeReceipt()
	hit := keptReceipt{id: "7d793037a0760186574b0282f2f435e7", route: "llama-3", time: noon, total: time.Millisecond, code: 200, cache: cache.ResultHit, lookup: 500 * time.Microsecond, cached: cachedAnswer{"draft", "stop", 301, 150, 0, 0.00031}}
	got := string(whole.encode()) + "\n" + string(hit.encode()) + "\n"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheNewestReceiptsAreKept(t *testing.T) {
	var r receipts
	all := func(*keptReceipt) bool { return true }
	if got := r.last(5, all); len(got) != 0 {
		t.Errorf("%d receipts of nothing", len(got))
	}
	for i := range keptReceipts + 7 {
		r.add(&keptReceipt{id: fmt.Sprint(i)})
	}
	got := r.last(keptReceipts, all)
	if len(got) != keptReceipts || got[0].id != "7" || got[keptReceipts-1].id != fmt.Sprint(keptReceipts+6) {
		t.Errorf("%d receipts, from %s to %s", len(got), got[0].id, got[len(got)-1].id)
	}
	odd := r.last(2, func(f *keptReceipt) bool { return f.id[len(f.id)-1]%2 == 1 })
	if len(odd) != 2 || odd[0].id != "1003" || odd[1].id != "1005" {
		t.Errorf("%v", odd)
	}
}

// told reads the receipts that the admin listener tells.
func (o office) told(t *testing.T, query string) (list []receiptJSON) {
	t.Helper()
	resp, err := o.client.Get(o.admin + "/admin/receipts" + query)
	if err != nil {
		t.Fatal(err)
	}
	text, err := rest(resp)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s %v: %s", resp.StatusCode, resp.Header.Get("Content-Type"), err, text)
	}
	for line := range strings.Lines(text) {
		var r receiptJSON
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func openBooks(t *testing.T) office {
	t.Helper()
	log := &lines{}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Logger = zerolog.New(log)
		o.Settings = setting(t, "receipts.log_sample_rate", "1")
	})
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}
}

func TestWhatWasDecidedForARequestCanBeRead(t *testing.T) {
	o := openBooks(t)
	const secret = "a word that must not be told"
	ask := func(model string) (id string, code int) {
		code, body := o.send(t, http.MethodPost, o.url+"/v1/chat/completions", `{"model":"`+model+`","max_tokens":5,"messages":[{"role":"user","content":"`+secret+`"}]}`,
			"Content-Type", "application/json", "Authorization", "Bearer sk-hidden")
		var answer struct{ ID string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		id, _, _ = strings.Cut(strings.TrimPrefix(answer.ID, "chatcmpl-"), "-") // behind it is which try of the request this was
		return id, code
	}
	id, code := ask("llama-3")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	ask("nobody knows")                                                                                    // leaves none
	for until := time.Now().Add(20 * time.Second); len(o.told(t, "")) == 0; time.Sleep(time.Millisecond) { // it is filed after the answer
		if time.Now().After(until) {
			t.Fatal("there is no receipt")
		}
	}
	r := o.told(t, "?n=1&route=llama-3&acceptance=bypassed&since=1h")[0]
	if r.ID != id || r.Code != 200 || r.Tier != "target" || r.Plan.Reason != "no_draft_pool" || r.Settings.Mode != "confidence" || r.Tokens.Target != 5 || len(r.Attempts) != 1 || r.MS.FirstByte <= 0 || r.MS.Total < r.MS.FirstByte {
		t.Errorf("%+v %+v", r, r.Plan)
	}
	if list := o.told(t, "?acceptance=rejected"); len(list) != 0 {
		t.Errorf("%d rejected", len(list))
	}
	if list := o.told(t, "?since="+url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))); len(list) != 0 {
		t.Errorf("%d of the future", len(list))
	}
	code, one := o.send(t, http.MethodGet, o.admin+"/admin/receipts/"+id, "")
	if code != http.StatusOK || !strings.Contains(one, `"id":"`+id+`"`) {
		t.Errorf("%d %s", code, one)
	}
	lines := o.log.holding(`"message":"receipt"`)
	if len(lines) != 1 || !strings.Contains(lines[0], strings.TrimSpace(one)) {
		t.Errorf("the log has %q", lines)
	}
	if all := one + strings.Join(lines, ""); strings.Contains(all, "must not") || strings.Contains(all, "sk-hidden") {
		t.Errorf("it tells too much: %s", all)
	}
}

func TestBadQuestionsForReceiptsAreRefusedByName(t *testing.T) {
	o := openBooks(t)
	for _, tc := range []struct {
		path, want string
		code       int
	}{
		{"?n=0", `"param":"n"`, 400},
		{"?n=1001", `"param":"n"`, 400},
		{"?n=many", `"param":"n"`, 400},
		{"?acceptance=maybe", `"param":"acceptance"`, 400},
		{"?since=yesterday", `"param":"since"`, 400},
		{"?since=-5m", `"param":"since"`, 400},
		{"?route=nobody", `"code":"model_not_found"`, 404},
		{"?tenant=a", `"param":"tenant"`, 400},
		{"?n=1&n=2", `"param":"n"`, 400},
		{"/unheard-of", `"code":"unknown_receipt"`, 404},
		{"/unheard-of?n=1", `"param":"n"`, 400},
	} {
		if code, body := o.send(t, http.MethodGet, o.admin+"/admin/receipts"+tc.path, ""); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s", tc.path, code, body)
		}
	}
	for _, path := range []string{"/admin/receipts", "/admin/receipts/x"} {
		if code, _ := o.send(t, http.MethodPost, o.admin+path, "{}"); code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, code)
		}
	}
}

func TestWhyARequestFailedIsInItsReceipt(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 200, ""},
		{errOverloaded, 503, "overloaded"},
		{&strategy.BrokenError{Cause: &engine.Failure{Kind: engine.Stalled}}, statusBroken, string(engine.Stalled)},
		{errors.New("secret detail"), statusGone, "client_left"},
		{errors.New("secret detail"), 500, "internal_error"},
	} {
		f := receiptOf(&accessRecord{route: "r", code: tc.code, err: tc.err}, 0)
		if f.problem != tc.want {
			t.Errorf("%v with %d: %q, want %q", tc.err, tc.code, f.problem, tc.want)
		}
	}
}

package app_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// TestReceiptsUsageMetricsBudgetsAndConsoleHaveTheSameMoney sends requests of all kinds: accepted and rejected drafts that
// are continued, audits, cached, hosted and failed ones.
func TestReceiptsUsageMetricsBudgetsAndConsoleHaveTheSameMoney(t *testing.T) {
	store := redistest.Start(t)
	if err := store.Client.HSet(t.Context(), "foregate:settings",
		"redis.timeout", "2s", "speculation.mode", "confidence", "speculation.mode@audited", "shadow", "speculation.threshold_nats@strict", "20", "risk.audit_rate", "1", "risk.cold_start_rate", "1",
		"risk.cold_start_audits_per_minute", "100000", "risk.audit_budget", "0", "risk.max_concurrent_audits", "16", "economy.guard", "off",
		"timeout.target_first_token", "60s", "timeout.draft_first_token", "60s").Err(); err != nil {
		t.Fatal(err)
	}
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, Divergence: 0.9, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	hosted := startHosted(t, "from outside")
	r := apptest.Serve(t, conf(`redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, backends: [%q], usd_per_hour: 36, prefill_tokens_per_s: 5000, decode_tokens_per_s: 1000}
  large: {model: %s, backends: [%q], usd_per_hour: 360, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2500}
  away: {model: m, backends: ["http://127.0.0.1:1"], usd_per_hour: 36}
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_output: 2000}
routes:
  - {model: %s, draft: small, target: large, same_tokenizer: true}
  - {model: audited, draft: small, target: large, same_tokenizer: true}
  - {model: strict, draft: small, target: large, same_tokenizer: true}
  - {model: gone, target: away}
  - {model: outside, target: hosted}
tenants: [{id: acme, allow_external: true, budgets: [{usd: 1000, per: month}]}]
`, store.Addr, simDraft, draft.URL(), simTarget, target.URL(), hosted.URL, routeUsual))
	probed(t, r, 2)
	kinds := map[string]int{}
	ask := func(route string, prompt int, headers ...string) {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":60,"temperature":0,"stream":%t,"messages":[{"role":"user","content":"Name %d lakes."}]}`, route, prompt%2 == 0, prompt)
		status, head, _ := apptest.Send(t, http.MethodPost, r.URL+chat, body, append(headers, "X-Tenant-ID", "acme")...)
		kinds[fmt.Sprint(route, " ", status, " ", strings.Split(head.Get("X-Acceptance"), ";")[0], " ", head.Get("X-Tier"), " ", head.Get("X-Cache"))]++
	}
	for i := range 24 {
		ask(routeUsual, i)
	}
	for i := range 8 {
		ask(routeUsual, i)
		ask(routeUsual, 100+i, "X-Tier", "target")
		ask("audited", 200+i)
		ask("outside", 300+i)
		ask("strict", 400+i)
	}
	ask("gone", 1)
	t.Log(kinds)
	if text := fmt.Sprint(kinds); !strings.Contains(text, "accepted draft") || !strings.Contains(text, "rejected") || !strings.Contains(text, "HIT") {
		t.Errorf("kinds are missing: %s", text)
	}
	var told books
	apptest.Within(t, time.Minute, "all books are the same", func() bool {
		told = booksOf(t, r)
		return told.agree()
	})
	t.Logf("%+v", told)
	if told.audits == 0 || told.drafts == 0 || told.cached == 0 || told.receipts <= told.drafts {
		t.Errorf("there is less than was sent: %+v", told)
	}
}

// books are the sums of money as each place tells them, in USD.
type books struct {
	receipts, drafts, audits, alone, cached float64 // of receipts

	usage, usageAlone, usageSaved, usageCached float64
	metrics, metricsSaved                      float64
	budget, console                            float64
}

// agree reports whether all are the same within a tenth of a per cent.
func (b *books) agree() bool {
	all := b.receipts + b.audits
	for _, pair := range [][2]float64{
		{b.usage, all}, {b.metrics, all}, {b.console, all}, {b.budget, b.receipts}, {b.usageAlone, b.alone},
		{b.usageSaved, b.alone - all}, {b.metricsSaved, b.alone - all}, {b.usageCached, b.cached},
	} {
		if math.Abs(pair[0]-pair[1]) > 0.001*math.Abs(pair[1])+1e-9 {
			return false
		}
	}
	return all > 0
}

// booksOf reads them.
func booksOf(t *testing.T, r *apptest.Replica) (b books) {
	t.Helper()
	_, lines := apptest.Get(t, r.Admin+"/admin/receipts?n=1000")
	for line := range strings.Lines(lines) {
		var one struct {
			USD    float64 `json:"usd"`
			Draft  float64 `json:"draft_usd"`
			Alone  float64 `json:"target_alone_usd"`
			Audits float64 `json:"audit_usd"`
			Cached float64 `json:"cache_saved_usd"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		b.receipts += one.USD
		b.drafts += one.Draft
		b.alone += one.Alone
		b.audits += one.Audits
		b.cached += one.Cached
	}
	var usage struct {
		Total struct {
			USD    float64 `json:"usd"`
			Alone  float64 `json:"target_alone_usd"`
			Saved  float64 `json:"saved_by_drafts_usd"`
			Cached float64 `json:"saved_by_cache_usd"`
		}
	}
	r.Read(t, "/admin/usage", &usage)
	b.usage, b.usageAlone, b.usageSaved, b.usageCached = usage.Total.USD, usage.Total.Alone, usage.Total.Saved, usage.Total.Cached
	for line := range strings.Lines(r.Metrics(t)) {
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
			continue
		}
		switch name, _, _ := strings.Cut(line, "{"); name {
		case "foregate_cost_usd_total":
			b.metrics += v
		case "foregate_saved_usd":
			b.metricsSaved += v
		}
	}
	b.budget = (&provided{t: t, replicas: []*apptest.Replica{r}}).spent("acme")
	var samples []struct{ Spent float64 }
	r.Read(t, "/console/live", &samples)
	b.console = samples[len(samples)-1].Spent
	return b
}

func TestMoneyIsUnknownUntilPricesAreKnown(t *testing.T) {
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	r := apptest.Serve(t, conf("pools: {large: {model: %s, backends: [%q], usd_per_hour: 360}}\nroutes: [{model: %s, target: large}]\n", simTarget, target.URL(), routeUsual))
	r.Ready(t)
	apptest.Post(t, r.URL+chat, chatBody(routeUsual, `"max_tokens":4`))
	_, line := apptest.Get(t, r.Admin+"/admin/receipts")
	var usage struct {
		Total struct {
			USD      *float64 `json:"usd"`
			Alone    *float64 `json:"target_alone_usd"`
			Unpriced int      `json:"unpriced_requests"`
		}
	}
	apptest.Eventually(t, "the request is counted", func() bool {
		r.Read(t, "/admin/usage", &usage)
		return usage.Total.Unpriced == 1
	})
	if !strings.Contains(line, `"usd":null,"draft_usd":null,"target_alone_usd":null`) || usage.Total.USD != nil || usage.Total.Alone != nil {
		t.Errorf("the receipt is %s, usage is %+v", line, usage.Total)
	}
}

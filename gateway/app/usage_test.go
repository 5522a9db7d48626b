package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// account is the key of a row: tenant and route.
type account struct{ tenant, route string }

// usageFleet is replicas with prices, a cache, a dead route and tenants.
type usageFleet struct {
	redis    *redistest.Server
	replicas []*apptest.Replica
	receipts map[string]toldReceipt // by id: those of replicas that have ended, too
}

// toldReceipt is what a receipt tells of ledger.
type toldReceipt struct {
	ID, Tenant, Route, Cache, Tier, Acceptance string
	Code                                       int
	Tokens                                     struct{ Prompt, Accepted, Target int64 }
	USD                                        float64 `json:"usd"`
	DraftUSD                                   float64 `json:"draft_usd"`
	AloneUSD                                   float64 `json:"target_alone_usd"`
	SpentUSD                                   float64 `json:"spent_usd"`
	CacheSaved                                 float64 `json:"cache_saved_usd"`
}

// counts is the usage that a receipt tells of.
func (r *toldReceipt) counts() ledger.Counts {
	c := ledger.Counts{
		Requests: 1, Prompt: r.Tokens.Prompt, Completion: r.Tokens.Accepted + r.Tokens.Target,
		DraftUSD: ledger.NanosOf(r.DraftUSD), TargetUSD: ledger.NanosOf(r.USD) - ledger.NanosOf(r.DraftUSD),
		TargetAloneUSD: ledger.NanosOf(r.AloneUSD), DraftsSaved: ledger.NanosOf(r.AloneUSD) - ledger.NanosOf(r.SpentUSD), CacheSaved: ledger.NanosOf(r.CacheSaved),
	}
	*map[bool]*int64{r.Code < 400: &c.OK, r.Code == 499: &c.ClientLeft, r.Code == 429: &c.Limited, r.Code == 503: &c.Shed,
		r.Code >= 500 && r.Code != 503: &c.Failed, r.Code >= 400 && r.Code < 499 && r.Code != 429: &c.Refused}[true] = 1
	switch {
	case r.Acceptance != "" || r.Tier == "": // it was made for the request, or there was no answer
		c.DraftTokens = r.Tokens.Accepted
	case r.Cache == "coalesced":
		c.Coalesced, c.CachedTokens = 1, c.Prompt+c.Completion
	default:
		c.Cached, c.CachedTokens = 1, c.Prompt+c.Completion
	}
	return c
}

func newUsageFleet(t *testing.T, replicas int) *usageFleet {
	t.Helper()
	f := &usageFleet{redis: redistest.Start(t), receipts: map[string]toldReceipt{}}
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	if err := f.redis.Client.HSet(t.Context(), "foregate:settings", "economy.guard", "off", "retry.max_retries", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for range replicas {
		r := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, usd_per_hour: 1.01, prefill_tokens_per_s: 2500, decode_tokens_per_s: 900, backends: [%q]}
  large: {model: %s, usd_per_hour: 27.5, prefill_tokens_per_s: 10000, decode_tokens_per_s: 2300, backends: [%q]}
  gone: {model: gone, usd_per_hour: 1, backends: ["http://127.0.0.1:9"]}
routes:
  - {model: %s, draft: small, target: large, same_tokenizer: true}
  - {model: straight, target: large}
  - {model: lost, target: gone}
passthrough: [/v1/embeddings]
tenants: [{id: acme}, {id: beta}, {id: slow, rpm: 10}]
drain: {delay: 0s, grace: 10s}
`, f.redis.Addr, simDraft, draft.URL(), simTarget, target.URL(), routeUsual))
		f.replicas = append(f.replicas, r)
	}
	apptest.Within(t, riskSlow, "the engines are known", func() bool {
		return !slices.ContainsFunc(f.replicas, func(r *apptest.Replica) bool {
			return strings.Count(r.Metrics(t), "\nforegate_probe_age_seconds{") < 2
		})
	})
	return f
}

// traffic has every replica answer requests of all kinds, several at a time.
func (f *usageFleet) traffic(t *testing.T, round int) {
	t.Helper()
	var wg sync.WaitGroup
	for i, r := range f.replicas {
		for client := range 4 {
			wg.Go(func() {
				for n := range 8 {
					tenant := []string{"acme", "beta"}[n%2]
					text := fmt.Sprintf("Round %d, replica %d, client %d, question %d.", round, i, client, n)
					f.one(r, tenant, routeUsual, text, n%3 == 0)
					f.one(r, tenant, routeUsual, text, n%2 == 0)                                               // from the cache
					f.one(r, tenant, routeUsual, fmt.Sprint("Everybody asks this in round ", round, n), false) // at the same time
					f.one(r, tenant, "straight", text, false)
				}
				f.one(r, "acme", "lost", "Nobody answers.", false)
				for range 4 {
					f.one(r, "slow", "straight", fmt.Sprint("Too fast ", client, round), false)
				}
				f.hangUp(t, r, fmt.Sprintf("Round %d, replica %d, client %d leaves.", round, i, client))
				_, _, _ = apptest.Send(t, http.MethodPost, r.URL+"/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":["a","b %d"]}`, routeUsual, client), "X-Tenant-ID", "beta")
			})
		}
	}
	wg.Wait()
}

// one sends a chat request; what comes of it is in its receipt.
func (f *usageFleet) one(r *apptest.Replica, tenant, model, text string, stream bool) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":24,"temperature":0,"stream":%v,"messages":[{"role":"user","content":%q}]}`, model, stream, text)
	req, err := http.NewRequest(http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant-ID", tenant)
	if resp, err := apptest.Client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // a stream may break off
		_ = resp.Body.Close()
	}
}

// hangUp leaves in the middle of a stream.
func (f *usageFleet) hangUp(t *testing.T, r *apptest.Replica, text string) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := fmt.Sprintf(`{"model":"straight","max_tokens":4000,"ignore_eos":true,"temperature":0,"stream":true,"messages":[{"role":"user","content":%q}]}`, text)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant-ID", "beta")
	if resp, err := apptest.Client.Do(req); err == nil {
		_, _ = bufio.NewReader(resp.Body).ReadString('\n')
		leave()
		_ = resp.Body.Close()
	}
}

// sum adds up the receipts of all replicas.
func (f *usageFleet) sum(t *testing.T) (all map[account]ledger.Counts, total ledger.Counts) {
	t.Helper()
	for _, r := range f.replicas {
		status, page := apptest.Get(t, r.Admin+"/admin/receipts?n=1000")
		if status != http.StatusOK {
			t.Fatalf("receipts: status %d", status)
		}
		for line := range strings.Lines(page) {
			var told toldReceipt
			if err := json.Unmarshal([]byte(line), &told); err != nil {
				t.Fatal(err)
			}
			f.receipts[told.ID] = told
		}
	}
	all = map[account]ledger.Counts{}
	for _, told := range f.receipts {
		key, c := account{told.Tenant, told.Route}, told.counts()
		row := all[key]
		row.Add(&c)
		all[key] = row
		total.Add(&c)
	}
	return all, total
}

// yesterday is the first day that these tests look at: a run may go on after midnight.
func yesterday() string { return time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) }

// used is what a replica says of the fleet.
func used(t *testing.T, r *apptest.Replica) (all map[account]ledger.Counts, total ledger.Counts) {
	t.Helper()
	var report ledger.Report
	day := time.Now().UTC()
	path := "/admin/usage?by=route,tenant&from=" + yesterday() + "&to=" + day.AddDate(0, 0, 1).Format(time.DateOnly)
	if status, body := apptest.Get(t, r.Admin+path); status != http.StatusOK || json.Unmarshal([]byte(body), &report) != nil {
		return nil, total // Redis is away
	}
	if report.Scope != ledger.ScopeFleet || report.Damaged > 0 {
		t.Errorf("%s, %d damaged", report.Scope, report.Damaged)
	}
	all = map[account]ledger.Counts{}
	for _, row := range report.Rows {
		all[account{row.Tenant, row.Route}] = row.Counts
	}
	return all, report.Total.Counts
}

// agree waits until every replica says what the receipts say.
func (f *usageFleet) agree(t *testing.T, when string) (total ledger.Counts) {
	t.Helper()
	var want, got map[account]ledger.Counts
	defer func() {
		if t.Failed() {
			t.Logf("%s: -receipts +usage:\n%s", when, cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)))
		}
	}()
	for _, r := range f.replicas {
		apptest.Within(t, riskSlow, when+": usage is the sum of the receipts", func() bool {
			var theirs ledger.Counts
			want, total = f.sum(t)
			got, theirs = used(t, r)
			return cmp.Equal(want, got) && theirs == total
		})
	}
	return total
}

func TestUsageIsTheSumOfTheReceiptsOfAllReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	f := newUsageFleet(t, 3)
	f.traffic(t, 1)
	f.agree(t, "all is well")
	f.redis.Kill() // without what it had
	if status, body := apptest.Get(t, f.replicas[0].Admin+"/admin/usage"); status != http.StatusServiceUnavailable || !strings.Contains(body, "usage_away") {
		t.Errorf("without Redis: status %d: %s", status, body)
	}
	f.traffic(t, 2)
	f.redis.Restart()
	f.traffic(t, 3)
	f.agree(t, "after the death of Redis")
	_, _ = f.sum(t) // the receipts end with their replica
	f.replicas[2].Stop(t)
	f.replicas = f.replicas[:2]
	f.redis.Freeze() // replies are late, and connections are lost
	f.traffic(t, 4)
	f.redis.Thaw()
	total := f.agree(t, "after a replica has stopped")
	for name, n := range map[string]int64{
		"ok": total.OK, "limited": total.Limited, "shed or failed": total.Shed + total.Failed, "client_left": total.ClientLeft, "cached": total.Cached, "coalesced": total.Coalesced,
		"draft tokens": total.DraftTokens, "draft": int64(total.DraftUSD), "target": int64(total.TargetUSD), "alone": int64(total.TargetAloneUSD), "saved by drafts": int64(total.DraftsSaved), "saved by the cache": int64(total.CacheSaved),
	} {
		if n == 0 {
			t.Errorf("nothing is counted as %s: %+v", name, total)
		}
	}
}

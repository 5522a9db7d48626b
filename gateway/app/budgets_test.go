package app_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// spenders are replicas whose tenants have budgets, at one Redis and one engine.
type spenders struct {
	replicas []*apptest.Replica
	asked    atomic.Int64
}

// spending starts replicas. tenants is the list, or anything else that belongs into the file.
func spending(t *testing.T, n int, redis, tenants string) *spenders {
	t.Helper()
	c := redistest.Client(t, redistest.Background(redis))
	if err := c.HSet(t.Context(), "foregate:settings", "redis.timeout", "1s").Err(); err != nil { // a busy machine keeps it
		t.Fatal(err)
	}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50})
	s := &spenders{}
	for range n {
		s.replicas = append(s.replicas, apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s", replicas: %d}
pools: {only: {model: m, backends: [%q], usd_per_hour: 36000, prefill_tokens_per_s: 10000, decode_tokens_per_s: 1000}}
routes: [{model: llama-3, target: only}]
%s
drain: {delay: 0s, grace: 5s}
`, redis, n, sim.URL(), tenants)))
	}
	for _, r := range s.replicas {
		r.Ready(t)
		apptest.Eventually(t, "the replicas share", func() bool { return shares(t, r, n) })
	}
	return s
}

// ask sends a chat of a tenant that nobody sent before.
func (s *spenders) ask(t testing.TB, replica int, tenant string, members ...string) (int, http.Header, string) {
	t.Helper()
	body := strings.Replace(chatBody("llama-3", append(members, `"max_tokens":20`)...), `"hi"`, fmt.Sprintf(`"question %d"`, s.asked.Add(1)), 1)
	return apptest.Send(t, http.MethodPost, s.replicas[replica%len(s.replicas)].URL+chat, body, "X-Tenant-ID", tenant)
}

// view is a tenant as a replica shows it.
func (s *spenders) view(t testing.TB, replica int, tenant string) gateway.TenantView {
	t.Helper()
	var list struct{ Tenants []gateway.TenantView }
	s.replicas[replica].Read(t, "/admin/tenants", &list)
	for _, v := range list.Tenants {
		if v.ID == tenant {
			return v
		}
	}
	t.Fatalf("tenant %s is not in the list", tenant)
	return gateway.TenantView{}
}

// counted waits until a tenant's first budget is counted in Redis: a new Redis is not believed at once.
func (s *spenders) counted(t testing.TB, tenant string) {
	t.Helper()
	apptest.Eventually(t, "the budget is counted in Redis", func() bool { return s.view(t, 0, tenant).Budgets[0].Shared })
}

// maxUsage is more than what an answer uses. An estimate knows the prompt's tokens by its bytes, so what is in flight when a
// budget ends may use more than what was left.
const maxUsage = 60

// tokensOf reads the tokens of an answer.
func tokensOf(t testing.TB, body string) int {
	t.Helper()
	var answer struct {
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Usage.Total == 0 || answer.Usage.Total > maxUsage {
		t.Fatalf("no usage: %s", body)
	}
	return answer.Usage.Total
}

// errorOf reads type and code of an error.
func errorOf(body string) (kind, code, message string) {
	var e struct {
		Error struct{ Type, Code, Message string }
	}
	_ = json.Unmarshal([]byte(body), &e) // then it says nothing
	return e.Error.Type, e.Error.Code, e.Error.Message
}

// TestABudgetHoldsOverThreeReplicasToTheToken has clients of all replicas spend a small budget of tokens.
func TestABudgetHoldsOverThreeReplicasToTheToken(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	s := spending(t, 3, redistest.Start(t).Addr, "tenants: [{id: acme, budgets: [{tokens: 2000, per: month}, {usd: 1000000, per: month}]}]")
	s.counted(t, "acme")
	var used, refused atomic.Int64
	var clients sync.WaitGroup
	for i := range 9 {
		clients.Go(func() {
			for range 30 {
				status, head, body := s.ask(t, i, "acme")
				switch status {
				case http.StatusOK:
					used.Add(int64(tokensOf(t, body)))
				case http.StatusTooManyRequests:
					refused.Add(1)
					wait, _ := strconv.Atoi(head.Get("Retry-After"))
					now := time.Now().UTC()
					left := int(time.Until(time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)).Seconds())
					if kind, code, message := errorOf(body); kind != "insufficient_quota" || code != "insufficient_quota" || !strings.Contains(message, "2000 tokens per month") ||
						wait < left-5 || wait > left+10 || left > 60 && head.Get("X-Should-Retry") != "false" {
						t.Errorf("refused with %v %s, and %d s are left", head, body, left)
					}
				default:
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	clients.Wait()
	if used.Load() > 2000+9*maxUsage || used.Load() < 1800 || refused.Load() == 0 {
		t.Errorf("%d tokens were used of 2000, and %d requests refused", used.Load(), refused.Load())
	}
	apptest.Eventually(t, "every replica shows what was used", func() bool {
		for i := range s.replicas {
			v := s.view(t, i, "acme")
			if len(v.Budgets) != 2 || !v.Budgets[0].Shared || int64(v.Budgets[0].Used) != used.Load() || v.Budgets[0].Reserved != 0 || v.Budgets[1].Reserved != 0 {
				return false
			}
		}
		return true
	})
	apptest.Eventually(t, "the dollars are those of the usage", func() bool {
		var report ledger.Report
		s.replicas[0].Read(t, "/admin/usage", &report)
		b, usd := s.view(t, 0, "acme").Budgets[1], report.Total.USD.USD()
		return b.Unit == "usd" && usd > 0 && math.Abs(b.Used-usd) < 1e-9*300 // rounded up for each request
	})
}

func TestAReplicaThatStopsSettlesBeforeItEndsAlsoWhatItsClientsLeft(t *testing.T) {
	r := redistest.Start(t)
	s := spending(t, 1, r.Addr, "identity: {mode: trusted_headers, trusted_proxies: [127.0.0.0/8], unlisted_tenants: default, default_tenant: {max_priority: high, budgets: [{tokens: 100000, per: month}]}}")
	ctx := t.Context()
	for i := range 5 {
		body := strings.Replace(chatBody("llama-3", `"max_tokens":2000,"stream":true`), `"hi"`, fmt.Sprintf(`"long %d"`, i), 1)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.replicas[0].URL+chat, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Tenant-ID", "unlisted")
		resp, err := apptest.Client.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		_ = resp.Body.Close() // the client leaves
	}
	s.replicas[0].Stop(t)
	fields, err := r.Client.HVals(ctx, "foregate:{fg}:ledger1:tenant:unlisted").Result()
	if err != nil || len(fields) != 1 {
		t.Fatalf("fields %v, %v", fields, err)
	}
	const month = 13                          // after time, version, hour, day and the begin of the month
	part := strings.Fields(fields[0])[month:] // settled tokens and nanos, reserved tokens and nanos
	if settled, _ := strconv.Atoi(part[0]); settled < 5 || settled > 5*2100 || part[1] == "0" || part[2] != "0" || part[3] != "0" {
		t.Errorf("Redis has %v", part)
	}
}

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// hostedFile is a configuration whose route llama-3 has a hosted target. A dollar is 1,000 tokens.
func hostedFile(hosted string) string {
	return conf(`pools:
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: 1000, usd_per_million_cached: 100, usd_per_million_output: 1000}
routes: [{model: llama-3, target: hosted}]
passthrough: [/v1/embeddings, /v1/responses]
tenants: [{id: acme, allow_external: true}, {id: shy}]
`, hosted)
}

func TestAHostedTargetAnswersOnlyTenantsThatMayLeave(t *testing.T) {
	hosted := startHosted(t, "from outside")
	r := apptest.Serve(t, hostedFile(hosted.URL))
	for path, body := range map[string]string{
		chat: chatBody("llama-3", `"max_tokens":20`), "/v1/completions": `{"model":"llama-3","prompt":"hi"}`, "/v1/embeddings": `{"model":"llama-3","input":"hi"}`,
		"/v1/messages": `{"model":"llama-3","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, "/v1/responses": `{"model":"llama-3","input":"hi"}`,
		"/v1/messages/count_tokens": `{"model":"llama-3","messages":[{"role":"user","content":"hi"}]}`,
	} {
		status, _, text := apptest.Send(t, http.MethodPost, r.URL+path, body, "X-Tenant-ID", "shy")
		if status != http.StatusForbidden || !strings.Contains(text, "external_not_allowed") && !strings.HasPrefix(path, "/v1/messages") {
			t.Errorf("%s: a tenant that may not leave: status %d: %s", path, status, text)
		}
	}
	for _, header := range []string{"X-Tier: draft", "X-Tier: target", "X-Acceptance-Mode: exact", "Cache-Control: no-store"} {
		name, value, _ := strings.Cut(header, ": ")
		if status, _, text := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3"), "X-Tenant-ID", "shy", name, value); status != http.StatusForbidden {
			t.Errorf("%s: status %d: %s", header, status, text)
		}
	}
	for tenant, lists := range map[string]bool{"shy": false, "acme": true} {
		_, _, models := apptest.Send(t, http.MethodGet, r.URL+"/v1/models", "", "X-Tenant-ID", tenant)
		if strings.Contains(models, "llama-3") != lists {
			t.Errorf("the models of %s: %s", tenant, models)
		}
	}
	if asked := hosted.asked(); len(asked) > 0 {
		t.Fatalf("the outsider was asked for %v", asked)
	}
	for _, stream := range []bool{false, true} {
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)), "X-Tenant-ID", "acme")
		if status != http.StatusOK || head.Get("X-Tier") != "target" || !strings.Contains(body, "outside") {
			t.Errorf("stream %t: status %d, tier %q: %s", stream, status, head.Get("X-Tier"), body)
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/messages/count_tokens"} {
		status, _, text := apptest.Send(t, http.MethodPost, r.URL+path, `{"model":"llama-3","input":"hi","messages":[{"role":"user","content":"hi"}]}`, "X-Tenant-ID", "acme")
		if status != http.StatusNotFound {
			t.Errorf("%s is passed to a provider: status %d: %s", path, status, text)
		}
	}
	if asked := hosted.asked(); !slices.Equal(asked, []string{chat, chat}) {
		t.Errorf("it was asked for %v", asked)
	}
}

func TestAHostedTargetGetsNothingOfOursAndIsPaidByTheToken(t *testing.T) {
	hosted := startHosted(t, "from outside")
	r := apptest.Serve(t, hostedFile(hosted.URL))
	for _, stream := range []bool{false, true} {
		status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"cache_salt":"s"`, `"priority":3`, `"top_k":3`, fmt.Sprintf(`"max_tokens":20,"stream":%t`, stream)),
			"X-Tenant-ID", "acme", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Request-ID", "mine", "X-Priority", "low", "Cache-Control", "no-store")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, body)
		}
		hosted.gotOnly(t, "model", "messages", "max_tokens", "stream", "stream_options")
	}
	if page := r.Metrics(t); !strings.Contains(page, `foregate_cost_usd_total{part="target",route="llama-3"} 0.03`+"\n") { // twice 10 + 5 tokens
		t.Error(apptest.Lines(page, "foregate_cost_usd"))
	}
}

// TestAProvidersLimitIsBackpressure: a request that is told to wait does so, one that has no time for that is told how long,
// and the breaker stays closed.
func TestAProvidersLimitIsBackpressure(t *testing.T) {
	hosted := startHosted(t, "from outside")
	r := apptest.Serve(t, hostedFile(hosted.URL))
	hosted.limit(1, "2")
	began := time.Now()
	status, _, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", `"max_tokens":20`), "X-Tenant-ID", "acme")
	if took := time.Since(began); status != http.StatusOK || took < 1900*time.Millisecond || len(hosted.asked()) != 2 {
		t.Errorf("after %v: status %d, asked %v: %s", took, status, hosted.asked(), body)
	}
	hosted.limit(1000, "40")
	for try := range 3 {
		status, head, body := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("llama-3", fmt.Sprintf(`"max_tokens":2%d`, try)), "X-Tenant-ID", "acme")
		if status != http.StatusServiceUnavailable || !strings.HasPrefix(head.Get("X-Shed-Reason"), "provider_limit;pool=hosted;") || head.Get("Retry-After") == "" {
			t.Fatalf("try %d: status %d, %q, Retry-After %q: %s", try, status, head.Get("X-Shed-Reason"), head.Get("Retry-After"), body)
		}
	}
	if asked := hosted.asked(); len(asked) != 3 {
		t.Errorf("a provider that wants no request for 40 s was asked %d times", len(asked)-2)
	}
	if page := apptest.Lines(r.Metrics(t), "foregate_breaker_state"); !strings.Contains(page, `,pool="hosted"} 0`) {
		t.Error(page)
	}
}

// Prices of the provider in USD per million tokens: as of a large model.
const (
	providerInput, providerCached, providerOutput = 3.0, 0.3, 15.0
	providerPoor                                  = 0.01 // USD a day of the tenant poor
	providerAnswer                                = 8    // tokens of an answer at most
)

// provided are three replicas whose route has a small model of their own and a provider's.
type provided struct {
	t        *testing.T
	provider *vllmsim.Server
	replicas []*apptest.Replica
	asked    atomic.Int64
	mu       sync.Mutex
	outcomes map[string]int // by phase, status and reason
}

func startProvided(t *testing.T) *provided {
	t.Helper()
	w := &provided{t: t, outcomes: map[string]int{}}
	w.provider = vllmsim.Start(t, vllmsim.Options{
		Engine: "openai", Model: "theirs", Seed: simSeed, TimeScale: simScale,
		Hosted: vllmsim.Hosted{Input: providerInput, Cached: providerCached, Output: providerOutput},
	})
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, Divergence: 0.3, TimeScale: simScale})
	store := redistest.Start(t)
	if err := store.Client.HSet(t.Context(), "foregate:settings",
		"redis.timeout", "2s", "speculation.mode", "risk", "risk.label", "regenerate", "risk.max_disagreement", "0.3", "risk.audit_rate", "0.2", "risk.audit_budget", "0",
		"risk.audit_dollars_per_day", "0", "risk.cold_start_audits_per_minute", "100000", "economy.guard", "off", "cache.mode", "off",
		"timeout.target_first_token", "60s", "timeout.draft_first_token", "60s").Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.replicas = append(w.replicas, apptest.Serve(t, conf(`redis: {url: "redis://%s/0", replicas: 3}
pools:
  own: {model: %s, backends: [%q], usd_per_hour: 0}
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: %g, usd_per_million_cached: %g, usd_per_million_output: %g}
routes: [{model: %s, draft: own, target: hosted}]
tenants:
  - {id: acme, allow_external: true, budgets: [{usd: 1000, per: month}]}
  - {id: poor, allow_external: true, budgets: [{usd: %g, per: month}]}
`, store.Addr, simDraft, draft.URL(), w.provider.URL(), providerInput, providerCached, providerOutput, routeUsual, providerPoor)))
	}
	for _, r := range w.replicas {
		apptest.Within(t, riskSlow, "the pools are probed, and the replicas share", func() bool {
			return strings.Count(r.Metrics(t), "\nforegate_probe_age_seconds{") == 2 && shares(t, r, len(w.replicas))
		})
	}
	return w
}

// send sends requests to all replicas from 24 clients, and counts how they end.
func (p *provided) send(phase, tenant string, requests int, members ...string) {
	p.t.Helper()
	tier := map[bool]string{true: "target", false: "auto"}[tenant == "poor"] // whose drafts would cost nothing
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(requests))
	for i := range 24 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				n := p.asked.Add(1)
				body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"temperature":0,"stream":%t,"messages":[{"role":"system","content":%q},{"role":"user","content":"Name %d lakes."}]%s}`,
					routeUsual, providerAnswer, n%2 == 0, strings.Repeat("You know the lakes of the world. ", 6), n, strings.Join(append([]string{""}, members...), ","))
				status, head, text := apptest.Send(p.t, http.MethodPost, p.replicas[i%len(p.replicas)].URL+chat, body, "X-Tenant-ID", tenant, "X-Tier", tier)
				outcome := fmt.Sprintf("%s %d", phase, status)
				if reason, _, _ := strings.Cut(head.Get("X-Shed-Reason"), ";"); status != http.StatusOK {
					_, code, _ := errorOf(text)
					outcome += " " + code + " " + reason
				} else if strings.Contains(text, `"error":`) {
					outcome += " broken"
				}
				p.mu.Lock()
				p.outcomes[strings.TrimSpace(outcome)]++
				p.mu.Unlock()
			}
		})
	}
	clients.Wait()
}

// sum adds a metric over the replicas.
func (p *provided) sum(sample string) (total float64) {
	line := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(sample) + " (.*)$")
	for _, r := range p.replicas {
		for _, m := range line.FindAllStringSubmatch(r.Metrics(p.t), -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			total += v
		}
	}
	return total
}

// booked is what requests and audits have cost; the own draft has no price.
func (p *provided) booked() float64 {
	return p.sum(`foregate_cost_usd_total{part="target",route="`+routeUsual+`"}`) + p.audits()
}

func (p *provided) audits() float64 {
	return p.sum(`foregate_cost_usd_total{part="audit",route="` + routeUsual + `"}`)
}

// spent is what the ledger has counted of a tenant.
func (p *provided) spent(tenant string) float64 {
	var views struct {
		Tenants []struct {
			Tenant  string
			Budgets []struct{ Used float64 }
		}
	}
	p.replicas[0].Read(p.t, "/admin/tenants", &views)
	for _, v := range views.Tenants {
		if v.Tenant == tenant && len(v.Budgets) > 0 {
			return v.Budgets[0].Used
		}
	}
	return -1
}

// TestAFleetPaysWhatTheProviderCharges: what three replicas book is the provider's meter, through a storm of 429 and an
// outage; tenants' budgets have the same dollars, and hold.
func TestAFleetPaysWhatTheProviderCharges(t *testing.T) {
	requests := 10_000
	if testing.Short() {
		requests = 500
	}
	w := startProvided(t)
	w.send("calm", "acme", requests/2)
	w.provider.SetLimit(30)
	w.send("storm", "acme", requests/5)
	w.provider.SetLimit(0)
	if err := w.provider.SetFault(vllmsim.Fault{Status: http.StatusInternalServerError}); err != nil {
		t.Fatal(err)
	}
	w.send("outage", "acme", requests/10)
	if err := w.provider.SetFault(vllmsim.Fault{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.replicas {
		apptest.Within(t, time.Minute, "the provider is asked again", func() bool {
			status, _, _ := apptest.Send(t, http.MethodPost, r.URL+chat, chatBody(routeUsual, `"max_tokens":1`), "X-Tenant-ID", "acme", "X-Tier", "target")
			return status == http.StatusOK
		})
	}
	w.send("after", "acme", requests/5)
	var m vllmsim.Meter
	var booked float64
	apptest.Within(t, time.Minute, "the audits have ended", func() bool {
		m, booked = w.provider.Meter(), w.booked()
		t.Logf("%d requests: %+v; booked %.6f USD; %v", requests, m, booked, w.outcomes)
		return math.Abs(booked+m.ProbeUSD-m.USD) < 1e-9*float64(m.Calls) && m == w.provider.Meter()
	})
	var spent, audits float64
	defer func() { t.Logf("the ledger has %.6f, audits %.6f, booked %.6f USD", spent, audits, booked) }()
	apptest.Within(t, time.Minute, "the ledger has what requests cost", func() bool {
		spent = w.spent("acme")
		audits, booked = w.audits(), w.booked() // an audit may have ended since
		return math.Abs(spent+audits-booked) < 1e-6
	})
	if m.Left > 0 || m.Refused == 0 || m.Cached == 0 || audits == 0 && !testing.Short() {
		t.Errorf("the run shows less than it should: %+v, audits %g", m, audits)
	}
	for outcome, n := range w.outcomes {
		phase, rest, _ := strings.Cut(outcome, " ")
		ok := rest == "200"
		switch phase {
		case "storm":
			ok = ok || rest == "503 shed provider_limit" || rest == "503 upstream_busy"
		case "outage":
			ok = ok || rest == "502 upstream_error" || rest == "503 no_backend"
		}
		if !ok {
			t.Errorf("%d requests ended with %q", n, outcome)
		}
	}
	w.holdsTheBudget(m.USD)
}

// holdsTheBudget has a tenant spend more than it may: the provider's meter goes beyond its budget by what was in flight at most.
func (p *provided) holdsTheBudget(before float64) {
	t := p.t
	p.send("poor", "poor", 300, `"user":"poor"`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for m := p.provider.Meter(); ctx.Err() == nil; {
		if now := p.provider.Meter(); now != m {
			m = now
		}
		if math.Abs(p.booked()+m.ProbeUSD-m.USD) < 1e-9*float64(m.Calls) {
			break
		}
	}
	spent := p.spent("poor")
	inFlight := 24 * (120*providerInput + providerAnswer*providerOutput) / 1e6
	if spent <= 0 || spent > providerPoor+inFlight || p.outcomes["poor 429 insufficient_quota"] == 0 {
		t.Errorf("spent %g of %g USD, %g may be in flight: %v", spent, providerPoor, inFlight, p.outcomes)
	}
	// What a request costs is rounded up to 1e-9 USD.
	if m := p.provider.Meter(); m.USD-before < spent-1e-9*float64(m.Calls) {
		t.Errorf("the tenant's books have %g USD, and the provider charged %g", spent, m.USD-before)
	}
}

// errorOf reads type and code of an error.
func errorOf(body string) (kind, code, message string) {
	var e struct {
		Error struct{ Type, Code, Message string }
	}
	_ = json.Unmarshal([]byte(body), &e) // then it says nothing
	return e.Error.Type, e.Error.Code, e.Error.Message
}

func TestAReplicaThatStopsSettlesBeforeItEndsAlsoWhatItsClientsLeft(t *testing.T) {
	r := redistest.Start(t)
	ctx := t.Context()
	if err := r.Client.HSet(ctx, "foregate:settings", "redis.timeout", "1s").Err(); err != nil { // a busy machine keeps it
		t.Fatal(err)
	}
	s := apptest.Serve(t, conf(`redis: {url: "redis://%s"}
pools: {only: {model: m, backends: [%q], usd_per_hour: 36000, prefill_tokens_per_s: 10000, decode_tokens_per_s: 1000}}
routes: [{model: llama-3, target: only}]
identity: {mode: trusted_headers, trusted_proxies: [127.0.0.0/8], unlisted_tenants: default, default_tenant: {max_priority: high, budgets: [{tokens: 100000, per: month}]}}
`, r.Addr, vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50}).URL()))
	s.Ready(t)
	apptest.Eventually(t, "the replica shares", func() bool { return shares(t, s, 1) })
	for i := range 5 {
		body := strings.Replace(chatBody("llama-3", `"max_tokens":2000,"stream":true`), `"hi"`, fmt.Sprintf(`"long %d"`, i), 1)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+chat, strings.NewReader(body))
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
	s.Stop(t)
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

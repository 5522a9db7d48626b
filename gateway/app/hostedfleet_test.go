package app_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"regexp"
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
		w.replicas = append(w.replicas, apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0", replicas: 3}
pools:
  own: {model: %s, backends: [%q]}
  hosted: {model: theirs, engine: openai, backends: [%q], usd_per_million_input: %g, usd_per_million_cached: %g, usd_per_million_output: %g}
routes: [{model: %s, draft: own, target: hosted}]
tenants:
  - {id: acme, allow_external: true, budgets: [{usd: 1000, per: month}]}
  - {id: poor, allow_external: true, budgets: [{usd: %g, per: month}]}
drain: {delay: 0s, grace: 10s}
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
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(requests))
	for i := range 24 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				n := p.asked.Add(1)
				body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"temperature":0,"stream":%t,"messages":[{"role":"system","content":%q},{"role":"user","content":"Name %d lakes."}]%s}`,
					routeUsual, providerAnswer, n%2 == 0, strings.Repeat("You know the lakes of the world. ", 6), n, strings.Join(append([]string{""}, members...), ","))
				status, head, text := apptest.Send(p.t, http.MethodPost, p.replicas[i%len(p.replicas)].URL+chat, body, "X-Tenant-ID", tenant)
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
		m, booked = w.provider.Meter(), w.sum(`foregate_cost_usd_total{tier="target"}`)
		t.Logf("%d requests: %+v; booked %.6f USD; %v", requests, m, booked, w.outcomes)
		return math.Abs(booked+m.ProbeUSD-m.USD) < 1e-9*float64(m.Calls) && m == w.provider.Meter()
	})
	audits := w.sum(`foregate_audit_cost_usd_total{route="` + routeUsual + `"}`)
	t.Logf("audits %.6f USD", audits)
	if m.Left > 0 || m.Refused == 0 || m.Cached == 0 || audits == 0 && !testing.Short() {
		t.Errorf("the run shows less than it should: %+v, audits %g", m, audits)
	}
	apptest.Within(t, time.Minute, "the ledger has what requests cost", func() bool { // an audit is booked at its call, and counted at its end
		booked, audits = w.sum(`foregate_cost_usd_total{tier="target"}`), w.sum(`foregate_audit_cost_usd_total{route="`+routeUsual+`"}`)
		return math.Abs(w.spent("acme")+audits-booked) < 1e-6
	})
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
		if math.Abs(p.sum(`foregate_cost_usd_total{tier="target"}`)+m.ProbeUSD-m.USD) < 1e-9*float64(m.Calls) {
			break
		}
	}
	spent := p.spent("poor")
	inFlight := 24 * (120*providerInput + providerAnswer*providerOutput) / 1e6
	if spent <= 0 || spent > providerPoor+inFlight || p.outcomes["poor 429 insufficient_quota"] == 0 {
		t.Errorf("spent %g of %g USD, %g may be in flight: %v", spent, providerPoor, inFlight, p.outcomes)
	}
	if charged := p.provider.Meter().USD - before; charged < spent {
		t.Errorf("the tenant's books have %g USD, and the provider charged %g", spent, charged)
	}
}

package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers"
)

// mostTenants bounds those that are told apart; the rest share one line. Those of the
// configuration come first.
const mostTenants = 100

// otherTenants is the line of the rest.
const otherTenants = "other"

// TenantView is one tenant as GET /admin/tenants tells it: what it may, by the configuration,
// and what this replica did for it since it began.
type TenantView struct {
	Tenant              string `json:"tenant"`
	Listed              bool   `json:"listed"` // in the configuration
	MaxPriority         string `json:"max_priority,omitempty"`
	RPM                 int    `json:"rpm"` // limits; 0 is none
	TPM                 int    `json:"tpm"`
	Concurrent          int    `json:"concurrent"`
	DraftsUnderPressure bool   `json:"drafts_under_pressure"`
	OwnPromise          bool   `json:"own_promise"`

	Requests   uint64  `json:"requests"` // that named a route
	Cached     uint64  `json:"cached"`   // answered without a generation
	Accepted   uint64  `json:"accepted"` // answered by a draft alone
	Limited    uint64  `json:"limited"`  // 429
	Shed       uint64  `json:"shed"`     // 503
	Failed     uint64  `json:"failed"`   // other 5xx, and answers that broke off
	Prompt     uint64  `json:"prompt_tokens"`
	Completion uint64  `json:"completion_tokens"`
	USD        float64 `json:"usd"` // its share of the price of the backends that worked for it

	Last *float64 `json:"last_seconds"` // since its last request; null: there was none
	last time.Time
}

// tenants count what was done for each.
type tenants struct {
	mu   sync.Mutex
	byID map[string]*TenantView
	left int // listed ones beyond the bound
}

func newTenants(listed []TenantView) *tenants {
	t := &tenants{byID: map[string]*TenantView{}}
	for _, v := range listed {
		if len(t.byID) == mostTenants {
			t.left++
			continue
		}
		v.Listed = true
		t.byID[v.Tenant] = &v
	}
	return t
}

// book counts a request that is over.
func (t *tenants) book(l *exchangeLog) {
	if l.route == "" || l.caller.Tenant == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.of(l.caller.Tenant)
	v.Requests++
	v.last = l.began
	switch {
	case l.code == http.StatusTooManyRequests:
		v.Limited++
	case l.code == http.StatusServiceUnavailable:
		v.Shed++
	case l.code >= http.StatusInternalServerError:
		v.Failed++
	}
	if e := l.entry; e != nil {
		v.Cached++
		v.Prompt += uint64(e.Prompt)
		v.Completion += uint64(e.Accepted + e.Target)
		return
	}
	if rc := l.receipt; rc != nil {
		v.Prompt += uint64(rc.PromptTokens)
		v.Completion += uint64(rc.AcceptedTokens + rc.TargetTokens)
		v.USD += finite(rc.USD)
		if rc.Tier == tiers.Draft {
			v.Accepted++
		}
	}
}

// of is the line of a tenant; t.mu is held.
func (t *tenants) of(id string) *TenantView {
	if v := t.byID[id]; v != nil {
		return v
	}
	if len(t.byID) >= mostTenants {
		id = otherTenants
		if v := t.byID[id]; v != nil {
			return v
		}
	}
	v := &TenantView{Tenant: id}
	t.byID[id] = v
	return v
}

// views are all lines, by name.
func (t *tenants) views(now time.Time) []TenantView {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]TenantView, 0, len(t.byID))
	for _, v := range t.byID {
		line := *v
		if !v.last.IsZero() {
			age := max(0, now.Sub(v.last).Seconds())
			line.Last = &age
		}
		out = append(out, line)
	}
	slices.SortFunc(out, func(a, b TenantView) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out
}

func (g *Gateway) tenantRoutes(r chi.Router) {
	r.Get("/admin/tenants", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"tenants": g.tenants.views(g.now()), "left_out": g.tenants.left})
	})
}

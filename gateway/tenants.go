package gateway

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/go-chi/chi/v5"
)

// maxTenants bounds the number of tenants with a row of their own; the rest share one row. Listed tenants
// come first.
const maxTenants = 100

// otherTenants is the name of the shared row.
const otherTenants = "other"

// TenantView is one tenant in GET /admin/tenants: its rights in the list of tenants, and its use of this
// replica since the start.
type TenantView struct {
	Tenant            string `json:"tenant"`
	Listed            bool   `json:"listed"` // in the list of tenants now
	MaxPriority       string `json:"max_priority,omitempty"`
	RPM               int    `json:"rpm"` // limits; 0 is none
	TPM               int    `json:"tpm"`
	Concurrent        int    `json:"concurrent"`
	PerTenantEvidence bool   `json:"per_tenant_evidence"`
	AllowExternal     bool   `json:"allow_external"` // its requests may go to hosted fallbacks
	TraceContent      bool   `json:"trace_content"`  // its messages and answers go to the trace collector

	Models  []string     `json:"models,omitempty"`  // that it may use, as in the configuration; none: all
	Budgets []BudgetView `json:"budgets,omitempty"` // over all replicas; none: no budget

	Requests   uint64  `json:"requests"` // that named a known route
	Cached     uint64  `json:"cached"`   // answered without a generation
	Accepted   uint64  `json:"accepted"` // answered by a draft alone
	Limited    uint64  `json:"limited"`  // 429
	Shed       uint64  `json:"shed"`     // 503
	Failed     uint64  `json:"failed"`   // other 5xx, and answers that ended early
	Prompt     uint64  `json:"prompt_tokens"`
	Completion uint64  `json:"completion_tokens"`
	USD        float64 `json:"usd"` // its share of the price of its backends

	Last *float64 `json:"last_seconds"` // since its last request; null: there was none
	last time.Time
}

// BudgetView is one budget of a tenant and its present window, in dollars or in tokens.
type BudgetView struct {
	Unit        string  `json:"unit"` // usd or tokens
	Per         string  `json:"per"`  // hour, day or month
	Limit       float64 `json:"limit"`
	Used        float64 `json:"used"`
	Reserved    float64 `json:"reserved"`      // for requests in progress
	SecondsLeft float64 `json:"seconds_left"`  // until the window ends
	OnRedisLoss string  `json:"on_redis_loss"` // share or deny
	Shared      bool    `json:"shared"`        // counted in Redis now; else as this replica knew it last
}

// tenants counts each tenant's requests.
type tenants struct {
	listed func() []TenantView // the current list

	mu   sync.Mutex
	byID map[string]*TenantView // by name; all that were ever listed, and others
}

func newTenants(listed func() []TenantView) *tenants {
	if listed == nil {
		listed = func() []TenantView { return nil }
	}
	t := &tenants{listed: listed, byID: map[string]*TenantView{}}
	t.views(time.Time{}) // adds a row for each listed tenant
	return t
}

// count counts a finished request.
func (t *tenants) count(l *accessRecord) {
	if l.route == "" || l.Caller.Tenant == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.of(l.Caller.Tenant)
	v.Requests++
	v.last = l.Began
	switch {
	case l.code == http.StatusTooManyRequests:
		v.Limited++
	case l.code == http.StatusServiceUnavailable:
		v.Shed++
	case l.code >= http.StatusInternalServerError:
		v.Failed++
	}
	if e := l.Entry; e != nil {
		v.Cached++
		v.Prompt += uint64(e.Prompt)
		v.Completion += uint64(e.Accepted + e.Target)
		return
	}
	if rc := l.Receipt; rc != nil {
		v.Prompt += uint64(rc.PromptTokens)
		v.Completion += uint64(rc.AcceptedTokens + rc.TargetTokens)
		v.USD += finite(rc.USD)
		if rc.Tier == plan.Draft {
			v.Accepted++
		}
	}
}

// of returns the row of a tenant; t.mu is held.
func (t *tenants) of(id string) *TenantView {
	if v := t.byID[id]; v != nil {
		return v
	}
	if len(t.byID) >= maxTenants {
		id = otherTenants
		if v := t.byID[id]; v != nil {
			return v
		}
	}
	v := &TenantView{Tenant: id}
	t.byID[id] = v
	return v
}

// views returns all rows by name, with the current limits. left is the number of listed tenants that share a
// row because there are too many.
func (t *tenants) views(now time.Time) (out []TenantView, left int) {
	listed := t.listed()
	out = make([]TenantView, 0, len(listed))
	t.mu.Lock()
	defer t.mu.Unlock()
	filter := map[string]bool{}
	for _, l := range listed {
		filter[l.Tenant] = true
	}
	for id, v := range t.byID {
		if filter[id] {
			continue
		}
		v.list(TenantView{})
		if v.Listed = false; v.Requests == 0 { // it was listed, and sent no request
			delete(t.byID, id)
		}
	}
	for _, l := range listed {
		v := t.byID[l.Tenant]
		if v == nil && len(t.byID) >= maxTenants {
			left++
			continue
		}
		if v == nil {
			v = &TenantView{Tenant: l.Tenant}
			t.byID[l.Tenant] = v
		}
		v.list(l)
	}
	for _, v := range t.byID {
		line := *v
		if !v.last.IsZero() {
			age := max(0, now.Sub(v.last).Seconds())
			line.Last = &age
		}
		out = append(out, line)
	}
	slices.SortFunc(out, func(a, b TenantView) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out, left
}

// list copies a tenant's limits from the list.
func (v *TenantView) list(l TenantView) {
	v.Listed, v.MaxPriority, v.RPM, v.TPM, v.Concurrent = true, l.MaxPriority, l.RPM, l.TPM, l.Concurrent
	v.PerTenantEvidence = l.PerTenantEvidence
	v.TraceContent = l.TraceContent
	v.Models, v.Budgets = l.Models, l.Budgets
}

func (g *Gateway) tenantRoutes(r chi.Router) {
	r.Get("/admin/tenants", func(w http.ResponseWriter, _ *http.Request) {
		views, omitted := g.tenants.views(time.Now())
		writeJSON(w, map[string]any{"tenants": views, "omitted": omitted})
	})
}

package gateway

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// TenantView is one listed tenant in GET /admin/tenants: its rights, and what it has spent of its budgets. What it used is in
// GET /admin/usage.
type TenantView struct {
	Tenant            string `json:"tenant"`
	MaxPriority       string `json:"max_priority"`
	RPM               int    `json:"rpm"` // limits; 0 is none
	TPM               int    `json:"tpm"`
	Concurrent        int    `json:"concurrent"`
	PerTenantEvidence bool   `json:"per_tenant_evidence"`
	AllowExternal     bool   `json:"allow_external"` // its requests may go to hosted fallbacks
	TraceContent      bool   `json:"trace_content"`  // its messages and answers go to the trace collector

	Models  []string     `json:"models,omitempty"`  // that it may use, as in the configuration; none: all
	Budgets []BudgetView `json:"budgets,omitempty"` // over all replicas; none: no budget
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

// tenantRoutes is the route of the listed tenants.
func (g *Gateway) tenantRoutes(r chi.Router) {
	r.Get("/admin/tenants", func(w http.ResponseWriter, _ *http.Request) {
		views := []TenantView{}
		if g.opts.Tenants != nil {
			views = append(views, g.opts.Tenants()...)
		}
		writeJSON(w, map[string]any{"tenants": views})
	})
}

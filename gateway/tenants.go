package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
)

// TenantView is one listed tenant in GET /admin/tenants: its rights, and what it has spent of its budgets. What it used is in
// GET /admin/usage.
type TenantView struct {
	identity.Tenant

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

// budgetsTime bounds how long the list of tenants waits for their budgets in Redis. What is not known by then is as this
// replica knew it last.
const budgetsTime = time.Second

// tenants answers GET /admin/tenants with the tenants that are listed now.
func (g *Gateway) tenants(_ http.ResponseWriter, r *http.Request) (any, error) {
	listed := g.opts.Identity.Tenants()
	queries := make([]ledger.BudgetQuery, len(listed))
	for i, t := range listed {
		queries[i] = ledger.BudgetQuery{Tenant: t.ID, Budgets: t.Budgets}
	}
	ctx, cancel := context.WithTimeout(r.Context(), budgetsTime)
	defer cancel()
	states := g.opts.Ledger.States(ctx, queries)
	views := []TenantView{}
	for i, t := range listed {
		v := TenantView{Tenant: t}
		for _, s := range states[i] {
			v.Budgets = append(v.Budgets, BudgetViewOf(s))
		}
		views = append(views, v)
	}
	return map[string]any{"tenants": views}, nil
}

// BudgetViewOf converts the state of a budget: nano-dollars become dollars.
func BudgetViewOf(s ledger.BudgetState) BudgetView {
	unit, per := "tokens", 1.0
	if s.Budget.NanoUSD > 0 {
		unit, per = "usd", 1e9
	}
	loss := "share"
	if s.Budget.DenyOnLoss {
		loss = "deny"
	}
	return BudgetView{
		Unit: unit, Per: string(s.Budget.Per), Limit: float64(max(s.Budget.Tokens, s.Budget.NanoUSD)) / per, Used: float64(s.Used) / per,
		Reserved: float64(s.Reserved) / per, SecondsLeft: max(0, time.Until(s.Ends).Seconds()), OnRedisLoss: loss, Shared: s.Shared,
	}
}

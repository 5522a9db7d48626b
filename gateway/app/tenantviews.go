package app

import (
	"context"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/ledger"
)

// budgetsTime bounds how long the list of tenants waits for their budgets in Redis. What is not known by then is as this
// replica knew it last.
const budgetsTime = time.Second

// tenantViews returns the tenants that are listed now.
func (a *App) tenantViews() []gateway.TenantView {
	listed := a.identity.Tenants()
	queries := make([]ledger.BudgetQuery, len(listed))
	for i, t := range listed {
		queries[i].Tenant = t.ID
		if t.Access != nil {
			queries[i].Budgets = t.Access.Budgets
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), budgetsTime)
	defer cancel()
	states := a.Ledger.States(ctx, queries)
	var out []gateway.TenantView
	for i, t := range listed {
		v := gateway.TenantView{
			Tenant: t.ID, MaxPriority: t.MaxPriority.String(), RPM: t.RPM, TPM: t.TPM, Concurrent: t.Concurrent,
			PerTenantEvidence: t.PerTenantEvidence,
		}
		if t.Access != nil {
			v.Models, v.AllowExternal, v.TraceContent = t.Access.Models, t.Access.MayLeave(), t.Access.Traced()
		}
		for _, s := range states[i] {
			v.Budgets = append(v.Budgets, budgetView(s))
		}
		out = append(out, v)
	}
	return out
}

// budgetView converts the state of a budget: nano-dollars become dollars.
func budgetView(s ledger.BudgetState) gateway.BudgetView {
	unit, per := "tokens", 1.0
	if s.Budget.NanoUSD > 0 {
		unit, per = "usd", 1e9
	}
	loss := "share"
	if s.Budget.DenyOnLoss {
		loss = "deny"
	}
	return gateway.BudgetView{
		Unit: unit, Per: string(s.Budget.Per), Limit: float64(max(s.Budget.Tokens, s.Budget.NanoUSD)) / per, Used: float64(s.Used) / per,
		Reserved: float64(s.Reserved) / per, SecondsLeft: max(0, time.Until(s.Ends).Seconds()), OnRedisLoss: loss, Shared: s.Shared,
	}
}

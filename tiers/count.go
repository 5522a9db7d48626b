package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// CountTokens has the target's engines count the tokens of a request's prompt, without an answer. The receipt is never nil,
// and has no tokens: nothing is computed.
func (c *Cascade) CountTokens(ctx context.Context, a Request) (tokens int, rc *receipt.Receipt, err error) {
	rc = receipt.New(a.Body.Model, c.now())
	rc.Plan = plan.Plan{Tier: plan.Target, Reason: "count_tokens"}
	rt, err := c.routeOf(a.Route, a.Body.Model)
	if err != nil {
		return 0, rc, err
	}
	cfg := rt.Config()
	r := c.unplanned(rt, &cfg, &a, c.facts(rt, a.Body, plan.Target))
	ctx, cancel := c.services.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	record := receipt.NewRecorder(rc, c.now)
	record.Enter(plan.Target)
	defer record.Leave()
	if tokens, err = inflight.CountPrompt(ctx, r.Caller(record), r.Target); err == nil {
		record.SetTier(plan.Target)
	}
	return tokens, rc, err
}

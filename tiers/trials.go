package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
	"github.com/foregate/foregate/tiers/trial"
)

// newTrial returns the trial of a request, nil if nothing is compared or the client demands the draft.
func (c *Cascade) newTrial(rt *Route, r *inflight.Request, a *Request) *trial.Trial {
	how := rt.compared
	if how == nil || !c.compares || a.Tier == plan.Draft {
		return nil
	}
	setup := trial.Setup{
		Conversation: Conversation(a.Tenant, r.Body), Prices: how.incumbent.Prices,
		Pairs: how.pairs, Side: how.side, Opinions: how.opinions,
		Incumbent: inflight.Pool{Pool: how.incumbent.Target, Tier: plan.Target, Capabilities: c.capabilities(how.incumbent.Target.Name())},
	}
	if m := rt.Mirror; m != nil {
		setup.Mirror = &trial.Mirror{
			Pair: how.mirror, Prices: m.Prices, Share: m.Share,
			Pool: inflight.Pool{Pool: m.Pool, Tier: plan.Target, Capabilities: c.capabilities(m.Pool.Name())},
		}
	}
	if a.Retainer == nil {
		return c.trials.New(r, setup, nil)
	}
	return c.trials.New(r, setup, a.Retainer.Retain)
}

// settleTrial records the request's part in the comparison.
func (c *Cascade) settleTrial(ctx context.Context, t *trial.Trial, r *inflight.Request, o *strategy.Outcome, rc *receipt.Receipt, err error) {
	d := trial.Done{Outcome: o, Total: c.now().Sub(rc.Began), Err: err, Left: ctx.Err() != nil}
	if p := r.TokenPrices(); p.Complete() || r.Draft.Pool == nil && p.TargetPrefill > 0 && p.TargetDecode > 0 {
		d.Alone, d.USD = costOf(&p, o)
	}
	t.Settle(d)
}

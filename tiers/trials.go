package tiers

import (
	"context"
	"errors"

	"github.com/foregate/foregate/tiers/compare"
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
	conversation := Conversation(a.Tenant, r.Body)
	setup := trial.Setup{
		Conversation: conversation, Prices: how.incumbent.Prices, Pairs: how.pairs, Side: how.side, Opinions: how.opinions,
		Incumbent: inflight.Pool{Pool: how.incumbent.Target, Tier: plan.Target, Capabilities: c.capabilities(how.incumbent.Target.Name())},
	}
	if assigned := rt.For(conversation); assigned != rt { // [Route.Assign] passed over it
		setup.Pairs, setup.Side, setup.Diverted = assigned.compared.pairs, compare.Candidate, true
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

// settleTrial records the request's part in the comparison. A generation that ended for a reason of the gateway's own, such as
// another replica's answer, has none.
func (c *Cascade) settleTrial(ctx context.Context, t *trial.Trial, r *inflight.Request, o *strategy.Outcome, rc *receipt.Receipt, err error) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return
	}
	d := trial.Done{Outcome: o, Total: c.now().Sub(rc.Began), Err: err, Left: ctx.Err() != nil}
	if p := r.TokenPrices(); p.Complete() || r.Draft.Pool == nil && p.TargetPrefill > 0 && p.TargetDecode > 0 {
		d.Alone, d.USD = costOf(&p, o)
	}
	t.Settle(d)
}

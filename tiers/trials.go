package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
	"github.com/foregate/foregate/tiers/trial"
)

// opinionShare is the largest share of a route's requests whose answers of one target the incumbent is asked about.
const opinionShare = 0.05

// comparison is how the targets of a route are compared. [Cascade.SetRoutes] makes it; it is never changed.
type comparison struct {
	incumbent *Route         // that holds the target in force
	side      compare.Side   // of the route's own target in the pairs
	pairs     []compare.Pair // with the targets of other variants
	opinions  float64        // share of the requests whose answer the incumbent is asked about
	mirror    compare.Pair   // with the mirror's target; zero without one
}

// comparisonsOf sets how the targets of a route and of its variants are compared. The variants are of the route alone.
func comparisonsOf(rt *Route) {
	own := &comparison{incumbent: rt, side: compare.Incumbent}
	if rt.Mirror != nil {
		own.mirror = compare.Pair{Route: rt.Model, Incumbent: targetName(rt), Candidate: poolName(rt.Mirror.Pool.Name(), rt.Mirror.Serves)}
	}
	all := rt.Weight
	for _, v := range rt.Variants {
		all += v.Weight
	}
	var most float64 // largest share of all requests that any candidate is asked about
	for _, v := range rt.Variants {
		share := v.Weight / all
		asked := min(share, opinionShare)
		most = max(most, asked)
		pair := compare.Pair{Route: rt.Model, Incumbent: targetName(rt), Candidate: targetName(v.Route)}
		own.pairs = append(own.pairs, pair)
		v.Route.incumbent = rt
		v.Route.compared = &comparison{incumbent: rt, side: compare.Candidate, pairs: []compare.Pair{pair}, opinions: asked / share}
	}
	if most > 0 {
		own.opinions = min(1, most*all/rt.Weight)
	}
	if len(own.pairs) > 0 || rt.Mirror != nil {
		rt.compared = own
	}
}

// targetName names the target of a route with what it serves.
func targetName(rt *Route) string { return poolName(rt.Target.Name(), rt.Serves.Target) }

func poolName(pool, serves string) string {
	if serves == "" {
		return pool
	}
	return pool + " (" + serves + ")"
}

// newTrial returns the trial of a request, nil if its route compares no targets or the client demands the draft.
func (c *Cascade) newTrial(rt *Route, r *inflight.Request, a *Request) *trial.Trial {
	how := rt.compared
	if how == nil || a.Tier == plan.Draft {
		return nil
	}
	setup := trial.Setup{
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

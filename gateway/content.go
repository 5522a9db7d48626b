package gateway

import (
	"context"

	"github.com/foregate/foregate/gateway/content"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
)

// answer answers a request to the cascade. Where its tenant opted in, its content goes to its trace.
func (g *Gateway) answer(ctx context.Context, asked pipeline.Request, to pipeline.Client, l *accessRecord) error {
	if l.trace.recorded() && l.Caller.Access.Traced() {
		l.content = content.New(asked.Body.Kind)
		asked.Observe = l.content.Observe
		defer l.content.Ask(asked.Body)
	}
	return g.pipeline.Answer(ctx, asked, to, &l.Record)
}

// modelOf returns the model of the pool that wrote an answer: of the draft if it wrote all of it, otherwise of the target,
// or of the fallback, whose call is the last one. It is "" if that is not known. The key of a cached answer contains the
// models of its route, so that they are those of rt.
func modelOf(rt *tiers.Route, d *RequestSummary) string {
	if rt == nil {
		return ""
	}
	switch plan.Tier(d.Tier) {
	case plan.Target, plan.Mixed:
		return rt.Target.Model()
	case plan.Draft:
		if rt.Draft != nil {
			return rt.Draft.Model()
		}
	case plan.Fallback:
		if d.Receipt == nil || len(d.Receipt.Tries) == 0 {
			return ""
		}
		answered := d.Receipt.Tries[len(d.Receipt.Tries)-1].Pool
		for i := range rt.Fallbacks {
			if p := rt.Fallbacks[i].Pool; p.Name() == answered {
				return p.Model()
			}
		}
	}
	return ""
}

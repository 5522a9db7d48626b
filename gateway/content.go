package gateway

import (
	"context"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// ContentLog exports the content of a share of the requests. No method of it or of its entries may block.
type ContentLog interface {
	// Begin returns the entry of a request with an id; nil if the request is not exported.
	Begin(id string, r *openai.Request) ContentEntry
}

// ContentEntry collects the content of one request.
type ContentEntry interface {
	// Observe returns the observer of a new attempt at the answer.
	Observe() pipeline.Observer
	// Take copies what is exported of the request, whose body is gone afterwards.
	Take()
	// End exports the entry. It is the last call.
	End(o *ContentOutcome)
}

// ContentOutcome says how a request ended.
type ContentOutcome struct {
	*RequestSummary
	Trace *Trace       // nil where requests are not traced
	Entry *cache.Entry // the answer, if it was not made for this request
}

// answer answers a request to the cascade, and collects its content if it is exported.
func (g *Gateway) answer(ctx context.Context, asked pipeline.Request, to pipeline.Client, l *accessRecord) error {
	if g.opts.Content != nil {
		if l.content = g.opts.Content.Begin(l.ID, asked.Body.Request); l.content != nil {
			asked.Observe = l.content.Observe
			defer l.content.Take()
		}
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

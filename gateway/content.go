package gateway

import (
	"context"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers/openai"
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

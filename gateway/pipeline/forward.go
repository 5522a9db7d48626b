package pipeline

import (
	"context"

	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// ForwardRequest is a request that is forwarded to the target pool.
type ForwardRequest struct {
	*Metadata
	Path     string          // the caller has checked that it is allowed
	Envelope openai.Envelope // the body, as it was read
	Route    *tiers.Route    // of its model
}

// Forward forwards a request to the target pool of the route in its body, within its tenant's limits.
func (p *Pipeline) Forward(ctx context.Context, in ForwardRequest, to Client, record *Record) error {
	about := estimateForwarded(in.Envelope.Need())
	about.prices = targetPrices(in.Route)
	reserved, err := p.reserve(ctx, in.Metadata, about, record)
	if err != nil {
		return err
	}
	defer func() { settle(reserved, about.used(record.Receipt), record.Receipt) }()
	record.Receipt, err = p.o.Cascade.Forward(ctx, in.Route, tiers.Forward{
		Arrival: p.arrival(in.Metadata, in.Envelope.Name), Path: in.Path, Envelope: in.Envelope,
	}, &sink{to, record})
	return err
}

// CountTokens has the target's engines count the tokens of a request's prompt. It is one request of the tenant's limits, of no
// tokens.
func (p *Pipeline) CountTokens(ctx context.Context, in Request, record *Record) (tokens int, err error) {
	reserved, err := p.reserve(ctx, in.Metadata, estimate{answers: 1}, record)
	if err != nil {
		return 0, err
	}
	defer func() { settle(reserved, 0, record.Receipt) }()
	a := p.arrival(in.Metadata, in.Route.Model)
	a.Body, a.Demanded, a.Salt = in.Body, plan.Target, ""
	r := p.o.Cascade.Arrive(in.Route, a)
	tokens, err = p.o.Cascade.CountTokens(ctx, r)
	record.Receipt = r.Receipt
	return tokens, err
}

// targetPrices returns the prices of a route's target; drafts take no part in what is forwarded.
func targetPrices(rt *tiers.Route) func() economy.Prices {
	if rt == nil || rt.Prices == nil {
		return nil
	}
	return func() economy.Prices {
		p := rt.Prices()
		p.DraftPrefill, p.DraftDecode = 0, 0
		return p
	}
}

package pipeline

import (
	"context"

	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
)

// ForwardRequest is a request that is forwarded to the target pool.
type ForwardRequest struct {
	*Metadata
	Path     string          // the caller has checked that it is allowed
	Envelope openai.Envelope // the body, as it was read
	Bytes    int             // of the body
}

// Forward forwards a request to the target pool of the route in its body, within its tenant's limits.
func (p *Pipeline) Forward(ctx context.Context, in ForwardRequest, to Client, record *Record) error {
	need := in.Envelope.Need(in.Path)
	about := estimateForwarded(need)
	grant, err := p.reserve(ctx, in.Metadata, about, record)
	if err != nil {
		return err
	}
	defer func() { grant.Settle(about.used(record.Receipt)) }()
	record.Receipt, err = p.o.Cascade.Forward(ctx, tiers.Forward{
		Path: in.Path, Envelope: in.Envelope, Bytes: in.Bytes, Need: need, ID: in.ID, Tenant: in.Caller.Tenant, Class: int8(in.Caller.Priority),
		Salt: p.salt(in.Envelope.Name, in.Caller.Tenant), Header: in.Header, Spans: in.Spans,
	}, &sink{to, record})
	return err
}

package tiers

import (
	"context"

	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// Sink writes an answer to the client. Begin is called once, before the first Write. Each Write holds whole frames and
// is flushed.
type Sink interface {
	Begin(Head) error
	Write(p []byte) error
}

// Head holds what is known of an answer at its first byte.
type Head struct {
	strategy.Head
	ContentType string           // of an answer that passes through; "" otherwise
	Receipt     *receipt.Receipt // what is recorded so far
}

// headed adds the receipt to the head of an answer. Strategies never read it.
type headed struct {
	Sink
	receipt *receipt.Receipt
}

// Begin implements [strategy.Sink].
func (s *headed) Begin(h strategy.Head) error { return s.Sink.Begin(Head{Head: h, Receipt: s.receipt}) }

// Answer answers one request into sink. The receipt is never nil. After an error before the first byte nothing was
// written. After the first byte the error is a *[strategy.BrokenError] or the sink's own. When the client disconnects,
// ctx ends and all upstream calls are cancelled.
func (c *Cascade) Answer(ctx context.Context, a Request, sink Sink) (*receipt.Receipt, error) {
	rc := receipt.New(a.Body.Model, c.now())
	r, answer, err := c.newAnswer(&a, sink, rc)
	if err != nil {
		return rc, err
	}
	err = answer.Run(ctx)
	c.settle(r, answer, rc, err)
	if err == nil && a.Confirmation != nil {
		c.keep(r, &a, answer.Outcome())
	}
	return rc, err
}

// newAnswer returns a request and its answer, which has not started. What it needs of the stack is free again when the
// answer waits for its engine.
func (c *Cascade) newAnswer(a *Request, sink Sink, rc *receipt.Receipt) (*inflight.Request, *strategy.Answer, error) {
	rt, err := c.routeOf(a.Route, a.Body.Model)
	if err != nil {
		return nil, nil, err
	}
	cfg := a.Config
	if cfg == nil {
		live := rt.Config()
		cfg = &live
	}
	r := c.newRequest(rt, cfg, a)
	record := *receipt.NewRecorder(rc, c.now)
	record.RecordPlan(r.Plan, r.AuditDecision)
	return r, strategy.New(strategy.Options{
		Request: r, Record: record, Sink: &headed{sink, rc}, Observer: a.Observer, Auditor: c.newAuditor(r, a), Sent: a.Sent,
	}), nil
}

// settle records the outcome of an answer.
func (c *Cascade) settle(r *inflight.Request, answer *strategy.Answer, rc *receipt.Receipt, err error) {
	c.metrics.countOutcome(rc, r.Config.Mode)
	c.recordOutcome(r, answer.Outcome(), receipt.NewRecorder(rc, c.now), err)
}

// newRequest decides how the request is answered and returns it with the plan.
func (c *Cascade) newRequest(rt *Route, cfg *plan.Config, a *Request) *inflight.Request {
	f := c.facts(rt, a.Body, a.Tier) // read once, so that all decisions use the same capabilities
	if a.PerTenantEvidence {
		f.EvidenceTenant = a.Tenant
	}
	r := c.unplanned(rt, cfg, a, f)
	c.decide(rt, r, a, f)
	return r
}

// unplanned returns the request without a plan.
func (c *Cascade) unplanned(rt *Route, cfg *plan.Config, a *Request, f plan.Facts) *inflight.Request {
	r := &inflight.Request{Body: a.Body, Config: *cfg, Route: rt.Model, Tenant: a.Tenant, Class: a.Class, Salt: a.Salt, Services: c.services, Prices: rt.Prices, Variant: rt.variant()}
	r.Identity = dispatch.Identity{ID: a.ID, Header: a.Header, Spans: a.Spans}
	r.Demand = plan.DemandOf(a.Body, a.head())
	r.Target = inflight.Pool{Pool: rt.Target, Capabilities: f.Target, Tier: plan.Target}
	if rt.Draft != nil {
		r.Draft = inflight.Pool{Pool: rt.Draft, Capabilities: f.Draft, Tier: plan.Draft}
	}
	return r
}

// newAuditor returns the auditor of the request's draft, or nil if the draft is not audited. It starts shadow drafts.
func (c *Cascade) newAuditor(r *inflight.Request, a *Request) strategy.Auditor {
	if r.AuditDecision == nil || !r.AuditDecision.Own.Audited && !r.AuditDecision.Shadow {
		return nil
	}
	subject := audit.RequestAuditor{Request: r, Auditor: c.audits}
	if a.Confirmation != nil && !r.AuditDecision.Shadow {
		subject.OnLabel = a.Confirmation.Confirm
	}
	if a.Retainer != nil {
		subject.RetainBody = a.Retainer.Retain
	}
	if r.AuditDecision.Shadow {
		subject.Shadow()
		return nil
	}
	return subject
}

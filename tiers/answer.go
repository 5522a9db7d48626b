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

// Sink takes an answer on its way to the client. Begin is called once, before
// the first Write; each Write holds whole frames and is flushed.
type Sink interface {
	Begin(Head) error
	Write(p []byte) error
}

// Head is what is known of an answer at its first byte.
type Head struct {
	Stream      bool // server-sent events, else JSON
	Receipt     *receipt.Receipt
	ContentType string // of an answer that passes through; "" otherwise
	Length      int64  // of its body in bytes; 0 or less is unknown
}

// answerSink gives a sink the receipt with the head.
type answerSink struct {
	Sink
	receipt *receipt.Receipt
}

// Begin implements [strategy.Sink].
func (s answerSink) Begin(h strategy.Head) error {
	return s.Sink.Begin(Head{Stream: h.Stream, Receipt: s.receipt, Length: h.Length})
}

// Answer answers one request into sink. The receipt is never nil. An error
// before the first byte means that nothing was written; after it, it is a
// *[strategy.BrokenError] or the sink's own. The client's leaving cancels ctx, and with it every
// call upstream.
func (c *Cascade) Answer(ctx context.Context, a Ask, sink Sink) (*receipt.Receipt, error) {
	rc := &receipt.Receipt{Route: a.Request.Model, Began: c.tools.World.Now()}
	rt, err := c.Route(a.Request.Model)
	if err != nil {
		return rc, err
	}
	cfg := a.Config
	if cfg == nil {
		live := rt.Config()
		cfg = &live
	}
	r := c.request(rt, *cfg, &a)
	ctx, cancel := c.tools.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	record := receipt.NewRecorder(rc, c.tools.World.Now)
	record.Planned(r.Plan, r.Trial)
	answer := strategy.New(strategy.Options{
		Request: r, Record: record, Sink: answerSink{sink, rc}, Observer: a.Tap, Auditor: c.auditor(r, &a), Said: a.Said,
	})
	err = answer.Run(ctx)
	c.metrics.settled(rc, r.Config.Mode)
	c.learn(r, answer.Outcome(), err)
	return rc, err
}

// request is what is known of a request when its answer begins: with how it is to be answered.
func (c *Cascade) request(rt *Route, cfg plan.Config, a *Ask) *inflight.Request {
	f := c.facts(rt, a.Request, a.Tier) // what the engines can do is read once, so that all go by the same
	if a.Apart {
		f.Apart = a.Tenant
	}
	r := &inflight.Request{
		Body: a.Request, Route: rt.Model, Tenant: a.Tenant, Class: a.Class, Salt: a.Salt, Tools: c.tools,
		Identity: dispatch.Identity{ID: a.ID, Header: a.Header, Spans: a.Spans},
		Demand:   plan.DemandOf(a.Request, a.head()),
		Target:   inflight.Pool{Pool: rt.Target, Card: f.Target, Tier: plan.Target},
	}
	r.Demand.Salt = a.Salt
	if rt.Draft != nil {
		r.Draft = inflight.Pool{Pool: rt.Draft, Card: f.Draft, Tier: plan.Draft}
	}
	d := c.decide(rt, cfg, a, f)
	r.Plan, r.Config, r.Trial, r.Views = d.plan, d.cfg, d.trial, d.views
	return r
}

// auditor audits the request's draft, nil where that is not to be. A draft in the shadow is begun here.
func (c *Cascade) auditor(r *inflight.Request, a *Ask) strategy.Auditor {
	if r.Trial == nil || !r.Trial.Audited() && !r.Trial.Shadow {
		return nil
	}
	subject := audit.Subject{Request: r, Auditor: c.audits, Keep: a.Keep, Vouched: a.Vouched}
	if r.Trial.Shadow {
		subject.Shadow()
		return nil
	}
	return subject
}

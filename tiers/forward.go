package tiers

import (
	"context"
	"errors"
	"io"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// Forward is a request that is passed through to a route's target pool without being interpreted.
type Forward struct {
	inflight.Arrival                 // without a scanned body
	Path             string          // allow-listed by the caller
	Passed           *openai.Request // as [openai.Peek] has read it
}

// Forward sends a request to the target pool of a route, and returns the answer byte for byte. It replaces the model's
// name, and sets the tenant's cache salt if an engine computes on the prompt; engines without that field ignore it. Before
// the first byte it retries as Answer does. The receipt, which is never nil, has the tokens that the answer reports, limited
// to what is possible.
func (c *Cascade) Forward(ctx context.Context, rt *Route, f Forward, sink inflight.Sink) (*inflight.Receipt, error) {
	r := &inflight.Request{Arrival: f.Arrival, Receipt: inflight.NewReceipt(rt.Model, c.now()), Services: c.services}
	rc, need, cfg := r.Receipt, f.Passed.Need, rt.Config()
	rc.Decision.Plan = plan.Plan{Tier: plan.Target, Reason: "passthrough"}
	ctx, cancel := c.services.World.WithTimeout(ctx, cfg.Timeouts.Deadline(need.Prompt, need.Answer))
	defer cancel()

	passed := &engine.Forwarded{}
	o := f.newRequest(rt, cfg, passed)
	o.Events = r.Caller().Events
	r.Enter(plan.Target)
	x, err := c.services.Dispatch.Open(ctx, o)
	if f, failed := errors.AsType[*engine.Failure](err); failed && f.Kind == engine.WrongModel { // no backend has what the client asks for
		f.Kind = engine.Rejected
		return rc, f
	}
	if err != nil {
		return rc, err
	}
	defer x.Drop()
	rc.Tier = plan.Target
	r.RecordFirstByte()
	r.Leave()
	err = forwardStream(x, passed, inflight.Head{Length: passed.Length, ContentType: passed.Type, Receipt: rc}, sink)
	rc.PromptTokens, rc.TargetTokens = passed.Used.Prompt, passed.Used.Completion
	c.metrics.countForwarded(rc)
	return rc, err
}

// newRequest returns the request's call.
func (f *Forward) newRequest(rt *Route, cfg plan.Config, into *engine.Forwarded) dispatch.Request {
	need := f.Passed.Need
	edits := []openai.Edit{openai.SetText("model", rt.Target.Model())}
	if f.Salt != "" && need.Computes {
		edits = append(edits, openai.SetText("cache_salt", f.Salt))
	}
	body := f.Passed.Apply(nil, edits...)
	o := dispatch.Request{
		Call: &engine.Forward{Path: f.Path, Body: body, Into: into}, Pool: rt.Target, Tier: plan.Target, Role: dispatch.RoleTarget,
		Ticket:      dispatch.Ticket{Route: rt.Model, Pool: rt.Target.Name(), Tenant: f.Tenant, Class: f.Class},
		Demand:      pool.Demand{NoAnswer: need.MaxAnswer == 0, Whole: true},
		IdleTimeout: cfg.Timeouts.StreamIdle, // no first-byte deadline: an answer that is not streamed comes in one piece
		Retry:       dispatch.Retry{MaxRetries: cfg.MaxRetries, Budget: cfg.RetryBudget},
		MaxPrompt:   need.MaxPrompt,
		Identity:    f.Identity,
	}
	d := &o.Demand
	if need.Computes { // otherwise only the engine's front end works
		d.PromptTokens, d.PromptBytes, d.LongestShare = need.Prompt, need.Bytes, need.Longest
	}
	if !d.NoAnswer {
		d.OutputTokens, d.MaxOutput, d.Answers = plan.TypicalOutput, max(need.MaxAnswer, 0), need.Answers
		if need.Answer >= 0 {
			d.OutputTokens = min(need.Answer, plan.TypicalOutput)
		}
	}
	o.Ticket.Tokens = d.Tokens()
	return o
}

// forwardStream copies an answer, one write per read.
func forwardStream(x *dispatch.Exchange, passed *engine.Forwarded, h inflight.Head, sink inflight.Sink) error {
	var failed *engine.Failure
	defer func() { x.Close(failed, passed.Used.Completion) }()
	if err := sink.Begin(h); err != nil {
		return err
	}
	for {
		c, err := x.Next(engine.WantTokens)
		if err == io.EOF {
			return nil
		}
		if f, broke := errors.AsType[*engine.Failure](err); broke {
			failed = f
			return &inflight.BrokenError{Cause: f}
		}
		if err := sink.Write(c.Raw); err != nil {
			return err
		}
	}
}

// ForwardRequest is a request that is forwarded to the target pool.
type ForwardRequest struct {
	*Metadata
	Path   string          // the caller has checked that it is allowed
	Passed *openai.Request // as [openai.Peek] has read it
	Route  *Route          // of its model
}

// Forward forwards a request to the target pool of the route in its body, within its tenant's limits.
func (p *Pipeline) Forward(ctx context.Context, in ForwardRequest, to Client, record *Record) error {
	about := estimateForwarded(in.Passed.Need)
	about.prices = targetPrices(in.Route)
	reserved, err := p.reserve(ctx, in.Metadata, about, record)
	if err != nil {
		return err
	}
	defer func() { settle(reserved, about.used(record.Receipt), record.Receipt) }()
	record.Receipt, err = p.o.Cascade.Forward(ctx, in.Route, Forward{
		Arrival: p.arrival(in.Metadata, in.Passed.Model), Path: in.Path, Passed: in.Passed,
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
func targetPrices(rt *Route) func() economy.Prices {
	if rt == nil || rt.Prices == nil {
		return nil
	}
	return func() economy.Prices {
		p := rt.Prices()
		p.DraftPrefill, p.DraftDecode = 0, 0
		return p
	}
}

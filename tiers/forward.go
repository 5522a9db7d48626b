package tiers

import (
	"context"
	"errors"
	"io"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// Forward is a request that is passed through to a route's target pool without being interpreted.
type Forward struct {
	Arrival        // its body is as [openai.Peek] has read it
	Path    string // the caller has checked that it is allowed
}

// Forward passes a request through, within its tenant's limits, and the answer byte for byte. It replaces the model's name,
// and sets the tenant's cache salt if an engine computes on the prompt; engines without that field ignore it. Before the
// first byte it retries as Answer does. The receipt has the tokens that the answer reports, limited to what is possible.
func (p *Pipeline) Forward(ctx context.Context, f Forward, to Sink, record *Record) error {
	about := estimateForwarded(f.Body.Need)
	about.prices = targetPrices(f.Route)
	reserved, err := p.reserve(ctx, f.Metadata, about, record)
	if err != nil {
		return err
	}
	defer func() { settle(reserved, about.used(record.Receipt), record.Receipt) }()
	record.Receipt = NewReceipt(f.Route.Model, p.World.Now())
	return p.forward(ctx, &f, record.Receipt, to)
}

// forward passes a request through, and fills in its receipt.
func (p *Pipeline) forward(ctx context.Context, f *Forward, rc *Receipt, to Sink) error {
	need, cfg := f.Body.Need, f.Route.Config()
	r := &Request{
		Arrival: f.Arrival, Receipt: rc, Config: cfg, Services: &p.Services, Needs: demandOf(need),
		Target: Pool{Pool: f.Route.Target, Tier: plan.Target}, Salt: p.salt(f.Route.Model, f.Caller.Tenant),
	}
	rc.Decision.Plan = plan.Plan{Tier: plan.Target, Reason: "passthrough"}
	ctx, cancel := p.World.WithTimeout(ctx, cfg.Timeouts.Deadline(need.Prompt, need.Answer))
	defer cancel()

	passed := &engine.Forwarded{}
	o := r.calls().NewRequest(r.Target, r.forwarded(f.Path, passed))
	o.MaxPrompt = need.MaxPrompt // no first-byte deadline: an answer that is not streamed comes in one piece
	r.Enter(plan.Target)
	x, err := p.Dispatch.Open(ctx, o)
	if f, failed := errors.AsType[*engine.Failure](err); failed && f.Kind == engine.WrongModel { // no backend has what the client asks for
		f.Kind = engine.Rejected
		return f
	}
	if err != nil {
		return err
	}
	defer x.Drop()
	rc.Tier = plan.Target
	r.RecordFirstByte()
	r.Leave()
	h := r.head()
	h.Stream, h.Length, h.ContentType = false, passed.Length, passed.Type
	err = forwardStream(x, passed, h, to)
	rc.PromptTokens, rc.TargetTokens = passed.Used.Prompt, passed.Used.Completion
	p.metrics.countForwarded(rc)
	return err
}

// forwarded returns the call that passes the request through.
func (r *Request) forwarded(path string, into *engine.Forwarded) *engine.Forward {
	edits := []openai.Edit{openai.SetText("model", r.Target.Model())}
	if r.Salt != "" && r.Body.Need.Computes {
		edits = append(edits, openai.SetText("cache_salt", r.Salt))
	}
	return &engine.Forward{Path: path, Body: r.Body.Apply(nil, edits...), Into: into}
}

// demandOf returns what a request that is passed through needs of a backend.
func demandOf(need openai.Need) pool.Demand {
	d := pool.Demand{NoAnswer: need.MaxAnswer == 0, Whole: true}
	if need.Computes { // otherwise only the engine's front end works
		d.PromptTokens, d.PromptBytes, d.LongestShare = need.Prompt, need.Bytes, need.Longest
	}
	if !d.NoAnswer {
		d.OutputTokens, d.MaxOutput, d.Answers = plan.TypicalOutput, max(need.MaxAnswer, 0), need.Answers
		if need.Answer >= 0 {
			d.OutputTokens = min(need.Answer, plan.TypicalOutput)
		}
	}
	return d
}

// forwardStream copies an answer, one write per read.
func forwardStream(x *dispatch.Exchange, passed *engine.Forwarded, h ResponseHead, sink Sink) error {
	var failed *engine.Failure
	defer func() {
		x.Count(passed.Used)
		x.Close(failed, passed.Used.Completion)
	}()
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
			return &BrokenError{Cause: f}
		}
		if err := sink.Write(c.Raw); err != nil {
			return err
		}
	}
}

// CountTokens has the target's engines count the tokens of a request's prompt, without an answer. It is one request of the
// tenant's limits, of no tokens: nothing is computed.
func (p *Pipeline) CountTokens(ctx context.Context, in Arrival, record *Record) (tokens int, err error) {
	reserved, err := p.reserve(ctx, in.Metadata, estimate{answers: 1}, record)
	if err != nil {
		return 0, err
	}
	defer func() { settle(reserved, 0, record.Receipt) }()
	in.Demand.Tier = plan.Target
	r := p.arrive(in, "")
	r.Receipt = NewReceipt(in.Body.Model, p.World.Now())
	r.Decision.Plan = plan.Plan{Tier: plan.Target, Reason: "count_tokens"}
	record.Receipt = r.Receipt
	ctx, cancel := p.World.WithTimeout(ctx, r.Deadline())
	defer cancel()
	r.Enter(plan.Target)
	defer r.Leave()
	if tokens, err = CountPrompt(ctx, r.calls(), r.Target); err == nil {
		r.Tier = plan.Target
	}
	return tokens, err
}

// targetPrices returns the prices of a route's target; drafts take no part in what is forwarded.
func targetPrices(rt *Route) (p economy.Prices) {
	if rt.Prices != nil {
		p = rt.Prices()
	}
	p.DraftPrefill, p.DraftDecode = 0, 0
	return p
}

package tiers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/world"
)

// drafted streams one draft from the draft pool, judges it, and serves it or hands over to the target. The client gets
// the draft as it comes once its first tokens were accepted (streams), or at its end.
type drafted struct {
	*answer
	streams bool
	d       *draft.Draft
	x       *dispatch.Exchange // nil after the audit took it over
	watcher *auditedDraft      // nil where the draft is not audited
	release func()             // detaches the exchange from the request's cancellation

	started time.Time
	waited  bool   // the hold-back's time is over
	warm    string // target backend whose KV cache holds prompt and draft; "": none
}

// run reads the draft, then serves it or hands its accepted part to the target.
func (d *drafted) run(ctx context.Context) error {
	d.d, d.started, d.release = draft.New(d.DraftOptions()), d.World.Now(), func() {}
	own := ctx // an audited draft continues when the request is cancelled
	if d.auditor != nil {
		d.watcher = d.auditor.Watch()
		own, d.release, _ = world.Fork(ctx, d.World)
		defer func() { d.release() }()
	}
	x, err := d.Open(own, d.newRequest())
	if err != nil {
		if d.watcher != nil {
			d.watcher.Leave()
		}
		return d.withoutDraft(ctx, err)
	}
	if x.Tier() == plan.Target {
		return d.instead(ctx, x)
	}
	d.x = x
	defer func() {
		if d.x != nil {
			d.x.Drop()
		}
	}()
	d.x.SetMovable(true) // nothing was sent yet, so the target can answer from the start
	lost, err := d.read()
	d.stopReading(ctx, lost, err)
	d.recordDraft(d.d, d.started)
	switch {
	case err != nil: // of the client side
		return err
	case ctx.Err() != nil:
		return d.interrupted(ctx, lost)
	}
	return d.settle(ctx, lost)
}

// instead passes on the answer of the target, which had room while the draft pool had none.
func (d *drafted) instead(ctx context.Context, x *dispatch.Exchange) error {
	if d.Bypass = reasonFull; d.watcher != nil {
		d.watcher.Leave()
	}
	d.Enter(plan.Target)
	defer d.Leave()
	return d.straight.pass(ctx, x)
}

// newRequest returns the call for the draft: one that waits for the draft pool only while the target has no room either.
func (d *drafted) newRequest() dispatch.Request {
	capabilities := d.Draft.Capabilities
	o := d.draftRequest(&engine.Draft{Terms: d.Terms(d.Draft), Request: d.Body, Counted: capabilities != nil && !capabilities.TokenIDs})
	o.Retry.MaxRetries = min(o.Retry.MaxRetries, 1)          // one retry is enough: the target can answer without a draft
	o.Instead = sync.OnceValue(d.relay(plan.Target).request) // the queue may try often
	return o
}

// read reads the draft until it ends, is rejected, or its backend fails. err is a failure of the client side.
func (d *drafted) read() (lost *engine.Failure, err error) {
	for {
		c, err := d.x.Next(d.want())
		if err != nil {
			f, _ := errors.AsType[*engine.Failure](err)
			if d.d.Finish() != "" {
				f = nil // the answer is whole; only its usage is missing
			}
			return f, nil
		}
		if d.waited = d.World.Now().Sub(d.started) >= d.Config.Holdback; d.watcher != nil {
			d.watcher.Observe(c, d.waited)
		}
		if d.d.Take(c) {
			return nil, nil
		}
		if d.d.Finish() != "" || !d.streams {
			continue
		}
		if err := d.judge(); err != nil || d.d.State() == draft.Rejected {
			return nil, err
		}
	}
}

// judge commits to the draft when the hold-back is over and its score is accepted, and sends the tokens that are.
func (d *drafted) judge() error {
	if !d.d.Committed() && d.d.Commit(d.waited) {
		d.ScoreSeries = d.d.ScoreSeries()
		d.recordVerdict(d.d.EarlyVerdict())
		d.Tier, d.Committed = plan.Draft, d.d.Tokens()
	}
	if d.d.State() == draft.Rejected || !d.d.Committed() || !d.Body.Stream || d.x.Buffered() {
		return nil
	}
	text := d.d.Release()
	return d.client.send(text, openai.Usage{Prompt: d.d.PromptTokens(), Completion: d.d.Transcript().TokensSent()})
}

// want returns how much of the next chunk must be parsed.
func (d *drafted) want() engine.Want {
	if d.d.NeedsTopLogprobs() {
		return engine.WantTops
	}
	return engine.WantTokens
}

// stopReading closes the stream. If the audit needs more of the draft, the audit takes the stream over instead.
func (d *drafted) stopReading(ctx context.Context, f *engine.Failure, err error) {
	lost := f != nil || err != nil || ctx.Err() != nil
	if !lost && d.watcher != nil && d.watcher.NeedsMore() {
		d.release()
		d.watcher.TakeStream(d.x)
		d.x = nil
		return
	}
	d.x.Close(f, d.d.Tokens())
	switch {
	case d.watcher == nil:
	case lost:
		d.watcher.Leave()
	default:
		d.watcher.End()
	}
}

// settle serves a finished draft or escalates it.
func (d *drafted) settle(ctx context.Context, lost *engine.Failure) error {
	d.DraftedTokens = d.d.Tokens()
	if lost != nil {
		d.d.Lose()
	}
	v := d.d.End()
	if v.Reason == accept.ReasonDoubtful && !d.d.Committed() {
		d.warm = d.checkDraft(ctx, d.d)
		v = d.d.End()
	}
	d.recordVerdict(v)
	switch {
	case ctx.Err() != nil:
		return d.interrupted(ctx, nil)
	case d.d.State() == draft.Accepted:
		return d.keep(ctx)
	}
	return d.escalate(ctx, v)
}

// keep serves the draft as the answer.
func (d *drafted) keep(ctx context.Context) error {
	e := d.d.Ending()
	e.Usage.Prompt = d.promptTokens(ctx, e.Usage.Prompt, d.Draft)
	if _, _, stopped := d.d.Transcript().Stop(); stopped && d.d.EstimatedTokens() {
		d.Estimated = true // its stream was left before its usage
	}
	d.Tier, d.Served = plan.Draft, d.d
	d.AcceptedTokens, d.PromptTokens = e.Usage.Completion, e.Usage.Prompt
	return d.end(d.d.Transcript(), finish{e.Finish, e.Stop})
}

// escalate lets the target continue the accepted part of the draft, or answer from the start if no part was accepted.
func (d *drafted) escalate(ctx context.Context, v accept.Verdict) error {
	t, at := d.d.Transcript(), d.d.CutPoint(v)
	c := &continuation{
		answer: d.answer, t: t, pool: d.Target, warmBackend: d.warm, guessed: d.d.EstimatedTokens(), prompt: d.d.PromptTokens(),
	}
	d.AcceptedTokens, d.WastedTokens = at.Tokens, max(d.d.Tokens()-at.Tokens, 0)
	if at.Tokens == 0 && !d.client.headSent {
		return errNext
	}
	t.Rewind(at)
	d.Tier = plan.Mixed
	if d.d.Committed() {
		d.failOver(v.Reason, at)
	}
	err := c.carryOn(ctx, at)
	if errors.Is(err, errNext) {
		d.wasted(d.d.Tokens())
	}
	return err
}

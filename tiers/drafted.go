package tiers

import (
	"context"
	"errors"
	"fmt"
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
	own     *Part  // accepted part of the draft in the target's own token ids
}

// run reads the draft, then serves it or hands its accepted part to the target.
func (s *drafted) run(ctx context.Context) error {
	s.d, s.started, s.release = draft.New(s.DraftOptions()), s.World.Now(), func() {}
	own := ctx // an audited draft continues when the request is cancelled
	if s.auditor != nil {
		s.watcher = s.auditor.Watch()
		own, s.release, _ = world.Fork(ctx, s.World)
		defer func() { s.release() }()
	}
	x, err := s.Open(own, s.newRequest())
	if err != nil {
		if s.watcher != nil {
			s.watcher.Leave()
		}
		return s.withoutDraft(ctx, err)
	}
	if x.Tier() == plan.Target {
		return s.instead(ctx, x)
	}
	s.x = x
	defer func() {
		if s.x != nil {
			s.x.Drop()
		}
	}()
	s.x.SetMovable(true) // nothing was sent yet, so the target can answer from the start
	lost, err := s.read()
	s.stopReading(ctx, lost, err)
	s.recordDraft(s.d, s.started)
	switch {
	case err != nil: // of the client side
		return err
	case ctx.Err() != nil:
		return s.interrupted(ctx, lost)
	}
	return s.settle(ctx, lost)
}

// instead passes on the answer of the target, which had room while the draft pool had none.
func (s *drafted) instead(ctx context.Context, x *dispatch.Exchange) error {
	if s.Bypass = reasonFull; s.watcher != nil {
		s.watcher.Leave()
	}
	s.Enter(plan.Target)
	defer s.Leave()
	return s.straight.pass(ctx, x)
}

// newRequest returns the call for the draft: one that waits for the draft pool only while the target has no room either.
func (s *drafted) newRequest() dispatch.Request {
	capabilities := s.Draft.Capabilities
	o := s.draftRequest(&engine.Draft{Terms: s.Terms(s.Draft), Request: s.Body, Counted: capabilities != nil && !capabilities.TokenIDs})
	o.Retry.MaxRetries = min(o.Retry.MaxRetries, 1)          // one retry is enough: the target can answer without a draft
	o.Instead = sync.OnceValue(s.relay(plan.Target).request) // the queue may try often
	return o
}

// read reads the draft until it ends, is rejected, or its backend fails. err is a failure of the client side.
func (s *drafted) read() (lost *engine.Failure, err error) {
	for {
		c, err := s.x.Next(s.want())
		if err != nil {
			f, _ := errors.AsType[*engine.Failure](err)
			if s.d.Finish() != "" {
				f = nil // the answer is whole; only its usage is missing
			}
			return f, nil
		}
		if s.waited = s.World.Now().Sub(s.started) >= s.Config.Holdback; s.watcher != nil {
			s.watcher.Observe(c, s.waited)
		}
		if s.d.Take(c) {
			return nil, nil
		}
		if s.d.Finish() != "" || !s.streams {
			continue
		}
		if err := s.judge(); err != nil || s.d.State() == draft.Rejected {
			return nil, err
		}
	}
}

// judge commits to the draft when the hold-back is over and its score is accepted, and sends the tokens that are.
func (s *drafted) judge() error {
	if !s.d.Committed() && s.d.Commit(s.waited) {
		s.ScoreSeries = s.d.ScoreSeries()
		s.recordVerdict(s.d.EarlyVerdict())
		s.Tier, s.Committed = plan.Draft, s.d.Tokens()
		if !s.Config.MidstreamFailover {
			s.x.SetMovable(false)
		}
	}
	if s.d.State() == draft.Rejected || !s.d.Committed() || !s.Body.Stream || s.x.Buffered() {
		return nil
	}
	text := s.d.Release()
	return s.client.send(text, openai.Usage{Prompt: s.d.PromptTokens(), Completion: s.d.Transcript().TokensSent()})
}

// want returns how much of the next chunk must be parsed.
func (s *drafted) want() engine.Want {
	if s.d.NeedsTopLogprobs() {
		return engine.WantTops
	}
	return engine.WantTokens
}

// stopReading closes the stream. If the audit needs more of the draft, the audit takes the stream over instead.
func (s *drafted) stopReading(ctx context.Context, f *engine.Failure, err error) {
	lost := f != nil || err != nil || ctx.Err() != nil
	if !lost && s.watcher != nil && s.watcher.NeedsMore() {
		s.release()
		s.watcher.TakeStream(s.x)
		s.x = nil
		return
	}
	s.x.Close(f, s.d.Tokens())
	switch {
	case s.watcher == nil:
	case lost:
		s.watcher.Leave()
	default:
		s.watcher.End()
	}
}

// checkTarget asks the target to check the draft. It returns nil if the target gave no answer.
func (s *drafted) checkTarget(ctx context.Context) *accept.Check {
	verdict, err := s.checkDraft(ctx, s.d)
	if verdict.Warm != "" {
		s.warm = verdict.Warm
	}
	if s.own = verdict.Part; err != nil {
		return nil
	}
	return &verdict.Check
}

// settle serves a finished draft or escalates it.
func (s *drafted) settle(ctx context.Context, lost *engine.Failure) error {
	s.DraftedTokens = s.d.Tokens()
	if lost != nil {
		s.d.Lose()
	}
	v := s.d.End()
	if v.Reason == accept.ReasonDoubtful && !s.d.Committed() {
		s.d.Check(s.checkTarget(ctx))
		v = s.d.End()
	}
	s.recordVerdict(v)
	switch {
	case ctx.Err() != nil:
		return s.interrupted(ctx, nil)
	case s.d.State() == draft.Accepted:
		return s.keep(ctx)
	}
	return s.escalate(ctx, v)
}

// keep serves the draft as the answer.
func (s *drafted) keep(ctx context.Context) error {
	e := s.d.Ending()
	e.Usage.Prompt = s.promptTokens(ctx, e.Usage.Prompt, s.Draft)
	if _, _, stopped := s.d.Transcript().Stop(); stopped && s.d.EstimatedTokens() {
		s.Estimated = true // its stream was left before its usage
	}
	s.Tier, s.Served = plan.Draft, s.d
	s.AcceptedTokens, s.PromptTokens = e.Usage.Completion, e.Usage.Prompt
	return s.end(s.d.Transcript(), finish{e.Finish, e.Stop})
}

// escalate lets the target continue the accepted part of the draft, or answer from the start if no part was accepted.
func (s *drafted) escalate(ctx context.Context, v accept.Verdict) error {
	t, at := s.d.Transcript(), s.d.CutPoint(v)
	c := &continuation{
		answer: s.answer, t: t, pool: s.Target, warmBackend: s.warm, guessed: s.d.EstimatedTokens(), prompt: s.d.PromptTokens(),
	}
	switch {
	case s.own != nil && !s.d.Committed():
		at, c.exact = t.Adopt(s.own.PromptIDs, s.own.IDs, s.own.Text), true
	case s.d.Committed() && !s.Config.MidstreamFailover:
		return &BrokenError{fmt.Errorf("the draft did not hold (%s), and speculation.midstream_failover is no", v.Reason)}
	}
	s.AcceptedTokens, s.WastedTokens = at.Tokens, max(s.d.Tokens()-at.Tokens, 0)
	if at.Tokens == 0 && !s.client.headSent {
		return errNext
	}
	t.Rewind(at)
	s.Tier = plan.Mixed
	if s.d.Committed() {
		s.failOver(v.Reason, at)
	}
	err := c.carryOn(ctx, at)
	if errors.Is(err, errNext) {
		s.wasted(s.d.Tokens())
	}
	return err
}

package strategy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/verify"
	"github.com/foregate/foregate/tiers/world"
)

// draftRun is a draft that is streamed from the draft pool, judged, and kept or escalated. Speculation and the
// verification of whole drafts begin and end with it.
type draftRun struct {
	*Answer
	d       *draft.Draft
	x       *dispatch.Exchange // nil when it was handed over
	watcher AuditDraft         // nil where the draft is not audited
	release func()             // lets the exchange outlive the request

	started  time.Time
	checking time.Duration // spent on asking the target
	warm     string        // backend of the target that has just computed prompt and draft; "" is none
	own      *verify.Part  // of what the target stood by, in its own ids
}

// newDraft begins a draft that the client may get.
func (a *Answer) newDraft() *draft.Draft {
	a.recordThresholds()
	return draft.New(DraftOptions(a.Request))
}

// DraftOptions are how the drafts of a request are judged.
func DraftOptions(r *inflight.Request) draft.Options {
	o := draft.Options{
		Request: r.Body, Config: r.Config, Plan: r.Plan, Warmup: r.AuditDecision != nil && r.AuditDecision.Warmup, Schemas: r.Schemas, MaxBytes: r.MaxBody,
	}
	if r.Draft.Capabilities != nil {
		o.EOS = r.Draft.Capabilities.EOS
	}
	return o
}

// run drafts, and either finishes with the draft or hands what was accepted of it to the target. step is called
// behind each chunk of a draft that goes on. Its error is the client's side's; nil is no step.
func (s *draftRun) run(ctx context.Context, step func(context.Context) error) error {
	s.d, s.started, s.release = s.newDraft(), s.World.Now(), func() {}
	own := ctx // of the draft: one that is audited goes on without the request
	if s.auditor != nil {
		s.watcher = s.auditor.Watch()
		own, s.release, _ = world.Fork(ctx, s.World)
		defer func() { s.release() }()
	}
	x, err := s.Open(own, s.newRequest())
	if err != nil {
		return s.withoutDraft(ctx, err)
	}
	s.x = x
	defer func() {
		if s.x != nil {
			s.x.Drop()
		}
	}()
	s.x.SetMovable(true) // while nothing of it was sent, the target may answer afresh
	lost, err := s.read(ctx, step)
	s.stopReading(ctx, lost, err)
	s.recordDraft(s.d, s.started)
	switch {
	case err != nil: // the client's side failed
		return err
	case ctx.Err() != nil && lost != nil:
		return s.endInterrupted(ctx, lost)
	case ctx.Err() != nil:
		return s.endInterrupted(ctx, nil)
	}
	return s.settle(ctx, lost)
}

// newRequest is the call for the draft.
func (s *draftRun) newRequest() dispatch.Request {
	capabilities := s.Draft.Capabilities
	o := s.newDraftRequest(&engine.Draft{Terms: s.Terms(s.Draft), Request: s.Body, Counted: capabilities != nil && !capabilities.TokenIDs})
	o.Retry.MaxRetries = min(o.Retry.MaxRetries, 1) // a draft is not worth more: the target answers anyway
	return o
}

// read reads the draft until it ends, is rejected, or is lost. err is a failure of the client's side.
func (s *draftRun) read(ctx context.Context, step func(context.Context) error) (lost *engine.Failure, err error) {
	for {
		c, err := s.x.Next(s.want())
		if err != nil {
			f, _ := errors.AsType[*engine.Failure](err)
			if s.d.Finish() != "" {
				f = nil // the answer is whole; only its usage is missing
			}
			return f, nil
		}
		if s.watcher != nil {
			s.watcher.Observe(c)
		}
		if s.d.Take(c) {
			return nil, nil
		}
		if s.d.Finish() != "" || step == nil {
			continue
		}
		if err := step(ctx); err != nil || s.d.Rejected() {
			return nil, err
		}
	}
}

// want is how much of the next chunk is to be read.
func (s *draftRun) want() engine.Want {
	if s.d.NeedsTopLogprobs() {
		return engine.WantTops
	}
	return engine.WantTokens
}

// stopReading ends the reading of a draft. Its audit goes on where more of it is of interest; one that is
// over is audited.
func (s *draftRun) stopReading(ctx context.Context, f *engine.Failure, err error) {
	lost := f != nil || err != nil || ctx.Err() != nil
	if !lost && s.watcher != nil && s.watcher.NeedsMore() {
		s.release()
		s.watcher.TakeStream(s.x)
		s.x = nil
		return
	}
	s.x.Close(f, s.d.Tokens())
	if s.watcher != nil && !lost {
		s.watcher.End()
	}
}

// checkTarget asks the target what it thinks of the draft as far as it is. nil is that it could not say.
func (s *draftRun) checkTarget(ctx context.Context) *accept.Check {
	began := s.World.Now()
	said, err := s.checkDraft(ctx, s.d)
	s.checking += s.World.Now().Sub(began)
	if said.Warm != "" {
		s.warm = said.Warm
	}
	if s.own = said.Part; err != nil {
		return nil
	}
	return &said.Check
}

// settle turns a draft that is over into an answer.
func (s *draftRun) settle(ctx context.Context, lost *engine.Failure) error {
	s.out.Drafted = s.d.Tokens()
	s.recordTally()
	if lost != nil {
		s.d.Fail()
	}
	v := s.d.Verdict()
	if v.Reason == accept.ReasonDoubtful && !s.d.Committed() {
		s.d.ApplyCheck(s.checkTarget(ctx))
		v = s.d.Verdict()
	}
	s.recordVerdict(v)
	switch {
	case ctx.Err() != nil:
		return s.endInterrupted(ctx, nil)
	case s.d.IsAnswer(v):
		return s.keep()
	}
	return s.escalate(ctx, v)
}

// keep finishes the answer with the draft.
func (s *draftRun) keep() error {
	e := s.d.Ending()
	s.setTier(plan.Draft)
	s.out.Accepted, s.out.Prompt = e.Usage.Completion, e.Usage.Prompt
	return s.end(s.d.Transcript(), finish{e.Finish, e.Stop})
}

// escalate hands the request to the target, with the accepted part of the draft
// where there is one.
func (s *draftRun) escalate(ctx context.Context, v accept.Verdict) error {
	t, at := s.d.Transcript(), s.d.CutPoint(v)
	c := &continuation{
		Answer: s.Answer, t: t, pool: s.Target, warmBackend: s.warm, guessed: s.d.EstimatedTokens(), prompt: s.d.PromptTokens(),
	}
	switch {
	case s.own != nil && !s.d.Committed():
		at, c.exact = t.Adopt(s.own.PromptIDs, s.own.IDs, s.own.Text), true
	case s.d.Committed() && !s.Config.MidstreamFailover:
		return &BrokenError{fmt.Errorf("the draft did not hold (%s), and speculation.midstream_failover is no", v.Reason)}
	}
	s.out.Accepted, s.out.Wasted = at.Tokens, max(s.d.Tokens()-at.Tokens, 0)
	s.recordTally()
	if at.Tokens == 0 && !s.client.begun {
		return errNoDraft
	}
	t.Rewind(at)
	s.setTier(plan.Mixed)
	if s.d.Committed() {
		s.recordFailover(v.Reason, at.Tokens, at.Text)
	}
	err := c.carryOn(ctx, at)
	if errors.Is(err, errNoDraft) {
		s.countWasted(s.d.Tokens())
	}
	return err
}

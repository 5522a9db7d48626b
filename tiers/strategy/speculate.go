package strategy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/transcript"
	"github.com/foregate/foregate/tiers/verify"
	"github.com/foregate/foregate/tiers/world"
)

// Auditor audits the drafts of a request.
type Auditor interface {
	// Watch begins the audit of a draft that is streamed.
	Watch() Watcher
	// Whole audits a draft that came in one piece.
	Whole(*openai.DraftAnswer)
}

// Watcher sees the draft that the client may get as it comes, and audits it to its end.
type Watcher interface {
	// See takes the next chunk; it is valid during the call only.
	See(*openai.Chunk)
	// Decided tells that it is decided now whether the client gets the draft.
	Decided()
	// Wants reports whether more of the draft is to be read, whatever becomes of the request.
	Wants() bool
	// TakeOver reads the rest of the draft. The exchange is the watcher's from then on.
	TakeOver(x *dispatch.Exchange)
	// Over tells that no more of the draft comes, and that it was not lost.
	Over()
}

// speculation is a draft that is streamed while it is judged.
type speculation struct {
	*Answer
	d       *draft.Draft
	x       *dispatch.Exchange // nil when it was handed over
	watcher Watcher            // nil where the draft is not audited
	release func()             // lets the exchange outlive the request

	started time.Time
	asking  time.Duration // spent on asking the target
	warm    string        // backend of the target that has just computed prompt and draft; "" is none
	own     *verify.Part  // of what the target stood by, in its own ids
}

// newDraft begins a draft that the client may get.
func (a *Answer) newDraft() *draft.Draft {
	cfg, p := &a.Config, &a.Plan
	band := cfg.Accept.Band
	if p.Ask == accept.AskNever {
		band = 0
	}
	a.record.Judging(cfg.Accept.Threshold, band, cfg.Tie)
	return draft.New(a.draftOptions())
}

// draftOptions are how the request's drafts are judged.
func (a *Answer) draftOptions() draft.Options {
	o := draft.Options{
		Request: a.Body, Config: a.Config, Plan: a.Plan, Warmup: a.Trial != nil && a.Trial.Warmup, Schemas: a.Schemas, MaxBytes: a.MaxBody,
	}
	if card := a.Draft.Card; card != nil {
		o.EOS = card.EOS
	}
	return o
}

// speculate drafts, judges while the tokens come, and either finishes with the
// draft or hands what was accepted of it to the target.
func (a *Answer) speculate(ctx context.Context) error {
	s := &speculation{Answer: a, d: a.newDraft(), started: a.World.Now(), release: func() {}}
	own := ctx // of the draft: one that is audited goes on without the request
	if a.auditor != nil {
		s.watcher = a.auditor.Watch()
		own, s.release, _ = world.Fork(ctx, a.World)
		defer func() { s.release() }()
	}
	card := a.Draft.Card
	o := a.draftOrder(&engine.Draft{Terms: a.Terms(a.Draft), Request: a.Body, Counted: card != nil && !card.TokenIDs})
	o.Retry.Attempts = min(o.Retry.Attempts, 1) // a draft is not worth more: the target answers anyway
	x, err := a.Open(own, o)
	if err != nil {
		return a.undrafted(ctx, err)
	}
	s.x = x
	defer func() {
		if s.x != nil {
			s.x.Drop()
		}
	}()
	lost, err := s.stream(ctx)
	s.part(ctx, lost, err)
	s.noteDraft()
	switch {
	case err != nil: // the client's side failed
		return err
	case ctx.Err() != nil && lost != nil:
		return a.interrupted(ctx, lost)
	case ctx.Err() != nil:
		return a.interrupted(ctx, nil)
	}
	return s.settle(ctx, lost)
}

// noteDraft tells the record of the draft so far.
func (s *speculation) noteDraft() {
	s.record.Marked(s.d.Track())
	s.record.Drafted(s.started)
}

// stream reads the draft until it ends, is rejected, or is lost. err is a failure of the client's side.
func (s *speculation) stream(ctx context.Context) (lost *engine.Failure, err error) {
	movable := true // while nothing of it was sent, the target may answer afresh
	s.x.Movable(movable)
	for {
		c, err := s.x.Next(s.want())
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			if s.d.Finish() != "" {
				return nil, nil // the answer is whole; only its usage is missing
			}
			f, _ := errors.AsType[*engine.Failure](err)
			return f, nil
		}
		if s.watcher != nil {
			s.watcher.See(c)
		}
		if s.d.Take(c) {
			return nil, nil
		}
		if s.d.Finish() != "" {
			continue
		}
		if s.decide(ctx); s.d.Rejected() {
			return nil, nil
		}
		if movable && s.d.Committed() && !s.Config.Takeover {
			movable = false
			s.x.Movable(movable)
		}
		if !s.d.Committed() || !s.Body.Stream || s.x.Buffered() {
			continue
		}
		if err := s.client.send(s.d.Release()); err != nil {
			return nil, err
		}
	}
}

// want is how much of the next chunk is to be read.
func (s *speculation) want() engine.Want {
	if s.d.WantsTop() {
		return engine.WantTops
	}
	return engine.WantTokens
}

// decide commits to the draft when its time has come, or asks the target first.
func (s *speculation) decide(ctx context.Context) {
	waited := s.World.Now().Sub(s.started)-s.asking >= s.Config.Holdback
	switch s.d.Decide(waited) {
	case accept.Wait:
		return
	case accept.Doubt:
		s.record.Marked(s.d.Track())
		if s.watcher != nil {
			s.watcher.Decided()
		}
		if s.d.Heard(promised(s.Trial, s.ask(ctx))); !s.d.Committed() {
			return
		}
	case accept.Commit:
		s.record.Marked(s.d.Track())
	}
	s.ruled(s.d.Early())
	s.from(plan.Draft)
	s.record.Committed(s.d.Tokens())
}

// promised holds what the target said of a doubtful head against the threshold of such.
func promised(t *plan.Trial, c *accept.Check) *accept.Check {
	if c == nil || t == nil || !c.Pass || float64(c.Score) >= t.Head.Threshold {
		return c
	}
	refused := *c
	refused.Pass, refused.Reason = false, accept.ReasonDisagrees
	return &refused
}

// part ends the reading of a draft. Its audit goes on where more of it is of interest; one that is
// over is audited.
func (s *speculation) part(ctx context.Context, f *engine.Failure, err error) {
	lost := f != nil || err != nil || ctx.Err() != nil
	if !lost && s.watcher != nil && s.watcher.Wants() {
		s.release()
		x := s.x
		s.x = nil
		s.watcher.TakeOver(x)
		return
	}
	s.x.Close(f, s.d.Tokens())
	if s.watcher != nil && !lost {
		s.watcher.Over()
	}
}

// ask asks the target what it thinks of the draft as far as it is. nil is that it could not say.
func (s *speculation) ask(ctx context.Context) *accept.Check {
	began := s.World.Now()
	said, err := s.askAbout(ctx, s.d)
	s.asking += s.World.Now().Sub(began)
	if said.Warm != "" {
		s.warm = said.Warm
	}
	if s.own = said.Part; err != nil {
		return nil
	}
	return &said.Check
}

// settle turns a draft that is over into an answer.
func (s *speculation) settle(ctx context.Context, lost *engine.Failure) error {
	s.out.Drafted = s.d.Tokens()
	s.noteTally()
	if lost != nil {
		s.d.Lose()
	}
	v := s.d.Verdict()
	if v.Reason == accept.ReasonDoubtful && !s.d.Committed() {
		s.d.Heard(s.ask(ctx))
		v = s.d.Verdict()
	}
	s.ruled(v)
	switch {
	case ctx.Err() != nil:
		return s.interrupted(ctx, nil)
	case s.d.Keeps(v):
		return s.keep()
	}
	return s.escalate(ctx, v)
}

// keep finishes the answer with the draft.
func (s *speculation) keep() error {
	e := s.d.Ending()
	s.from(plan.Draft)
	s.out.Accepted, s.out.Prompt = e.Usage.Completion, e.Usage.Prompt
	return s.end(s.d.Transcript(), finish{e.Finish, e.Stop})
}

// escalate hands the request to the target, with the accepted part of the draft
// where there is one.
func (s *speculation) escalate(ctx context.Context, v accept.Verdict) error {
	t, at := s.d.Transcript(), s.d.CutPoint(v)
	c := &continuation{
		Answer: s.Answer, t: t, pool: s.Target, warm: s.warm, guessed: s.d.Guessed(), prompt: s.d.PromptTokens(),
	}
	switch {
	case s.own != nil && !s.d.Committed():
		at, c.exact = t.Adopt(s.own.PromptIDs, s.own.IDs, s.own.Text), true
	case s.d.Committed() && !s.Config.Takeover:
		return &BrokenError{fmt.Errorf("the draft did not hold (%s), and speculation.takeover is no", v.Reason)}
	}
	s.out.Accepted, s.out.Wasted = at.Tokens, max(s.d.Tokens()-at.Tokens, 0)
	s.noteTally()
	if at.Tokens == 0 && !s.client.begun {
		return errNoDraft
	}
	t.Rewind(at)
	s.from(plan.Mixed)
	if s.d.Committed() {
		s.tookOver(v.Reason, at.Tokens, at.Text)
	}
	err := c.run(ctx, at)
	if errors.Is(err, transcript.ErrMismatch) && ctx.Err() == nil {
		t.Undo()
		err = c.run(ctx, t.End(at.Tokens+1))
	}
	if err == nil || s.client.begun {
		return err
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok && (f.Kind == engine.Gone || f.Kind == engine.Expired) || !ok && !errors.Is(err, errNoDraft) {
		return err
	}
	// This target cannot continue, or broke off while it did. Nothing was sent, so
	// a fresh answer is as good.
	s.wasted(s.d.Tokens())
	return errNoDraft
}

// wasted notes that nothing of a draft of so many tokens went into the answer.
func (a *Answer) wasted(tokens int) {
	a.out.Accepted, a.out.Target, a.out.Wasted = 0, 0, tokens
	a.noteTally()
}

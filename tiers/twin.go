package tiers

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// twin is a draft that is audited: it is judged like the one that the client may get, but goes on
// to its end while its score is of interest, whatever becomes of the other meanwhile. A draft in
// the shadow has a twin only.
type twin struct {
	*draft
	trial *plan.Trial
	band  float64 // lower edge of the doubtful band

	streams bool            // it would be released as it comes
	over    bool            // nothing more of it is wanted
	whole   *accept.Verdict // of one that came in one piece
	head    headState
}

// headState is what a draft was when it was decided whether the client gets it: what the target is
// asked about if it is doubtful.
type headState struct {
	ids   int
	score float64
}

// newTwin begins the book of a draft that is audited. It has a receipt of its own, which nobody
// gets, and no client.
func (j *job) newTwin() *twin {
	p := j.receipt.Plan
	own := *j
	own.sink, own.trial, own.ask.Tap = nil, nil, noTap{}
	if own.ask.Spans {
		own.ask.Spans, own.ask.Header = false, untraced(own.ask.Header)
	}
	own.receipt = &receipt.Receipt{Route: j.receipt.Route, Began: j.cascade.now(), Plan: plan.Plan{
		Tier: plan.Draft, Judged: true, Mode: plan.ModeLenient, Whole: true, Calls: p.Calls, Scorer: p.Auditor, Resume: p.Resume,
	}}
	if j.cfg.Risk.Label == plan.LabelPrefix {
		own.receipt.Plan.Mode = plan.ModeVerify
	}
	floor := j.trial.Floor(j.views.Own.Band)
	own.cfg.Accept.Threshold, own.cfg.Accept.Band = accept.Nats(floor), 0
	return &twin{streams: !p.Whole, draft: own.newDraft(), trial: j.trial, band: j.views.Own.Band, head: headState{score: math.Inf(1)}}
}

// see takes a chunk that the other draft takes, too.
func (t *twin) see(c *openai.Chunk) {
	if t.over || t.finish != "" {
		return
	}
	t.over = t.take(c) || t.course.Rejected()
	t.shown = t.streams && t.course.Tokens() >= max(t.job.cfg.HoldbackTokens, 1)
}

// decided notes what the draft was when it was decided whether the client gets it.
func (t *twin) decided() {
	if t != nil && t.head.ids == 0 && len(t.ids) == t.course.Tokens() {
		t.head = headState{ids: len(t.ids), score: float64(t.course.Score())}
	}
}

// apart is a context for what may outlive the request: cancelled with it while held, and from
// free on with nothing.
func apart(ctx context.Context) (own context.Context, free func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return own, func() { stop() }
}

// part ends the reading of a draft. Its twin goes on where it is of interest still; one that is
// over is audited.
func (d *draft) part(ctx context.Context, f *engine.Failure, err error) {
	t := d.twin
	lost := f != nil || err != nil || ctx.Err() != nil
	if !lost && t.wants() {
		d.free()
		t.goOn(d.x)
		d.x = nil
		return
	}
	d.x.close(f, d.course.Tokens())
	if t != nil && !lost && !t.start(t.audit) {
		t.dropped("busy")
	}
}

// start runs a task of the twin's in the background, which uses the request's body beyond its request; it
// reports whether there was room for it.
func (t *twin) start(task func(context.Context)) bool {
	if t.job.ask.Keep == nil {
		return t.job.cascade.audits.start(t.job.deadline(), task)
	}
	released := t.job.ask.Keep()
	started := t.job.cascade.audits.start(t.job.deadline(), func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
	}
	return started
}

// wants reports whether more of the draft is to be read.
func (t *twin) wants() bool { return t != nil && !t.over && t.finish == "" }

// goOn reads the rest of a draft that the request has no use for any more, and audits it. The
// exchange is the twin's from then on.
func (t *twin) goOn(x *exchange) {
	x.settleTry(nil, t.course.Tokens()) // the request's receipt is not touched any more
	x.receipt = t.job.receipt
	started := t.start(func(ctx context.Context) {
		stop := context.AfterFunc(ctx, func() { x.cancel(context.Canceled) })
		defer stop()
		if t.read(x) {
			t.audit(ctx)
		}
	})
	if !started {
		x.close(nil, t.course.Tokens())
		t.dropped("busy")
	}
}

// read reads a draft to its end; it reports whether it came to one.
func (t *twin) read(x *exchange) bool {
	var f *engine.Failure
	defer func() { x.close(f, t.course.Tokens()) }()
	for t.wants() {
		x.parser.NoTop = !t.course.WantsTop()
		_, chunk, err := x.next()
		if err != nil {
			if err != io.EOF {
				f, _ = errors.AsType[*engine.Failure](err)
				t.dropped("draft_lost")
			}
			return false
		}
		t.see(chunk)
	}
	return true
}

// audited reports whether the draft of the request is.
func (j *job) audited() bool { return j.trial != nil && j.trial.Audited() }

// auditWhole audits a draft that came in one piece.
func (j *job) auditWhole(a *openai.DraftAnswer) {
	t := j.newTwin()
	if t.took(a); !t.start(t.audit) {
		t.dropped("busy")
	}
}

// shadow makes a draft in the background, of which the client sees nothing, and audits it.
func (j *job) shadow() {
	t := j.newTwin()
	if !t.start(t.fromNothing) {
		t.dropped("busy")
	}
}

// fromNothing drafts and audits.
func (t *twin) fromNothing(ctx context.Context) {
	j := t.job
	if !j.cascade.audits.enter(ctx, j.cfg.Risk.AtOnce) {
		t.dropped("busy")
		return
	}
	if t.draftedInTurn(ctx) {
		t.audit(ctx)
	}
}

// draftedInTurn is drafted with a place that was taken.
func (t *twin) draftedInTurn(ctx context.Context) bool {
	defer t.job.cascade.audits.leave()
	return t.drafted(ctx)
}

// drafted has the draft pool write the draft, at the lowest class. It reports whether there is one.
func (t *twin) drafted(ctx context.Context) bool {
	j := t.job
	if t.job.receipt.Plan.Calls {
		return t.draftedWhole(ctx)
	}
	k := j.call(j.route.Draft, j.ask.Request.Kind.Path(), j.draftBody())
	k.stream, k.judged = true, true
	k.turn.Now, k.turn.Class = true, 0
	k.firstByte = j.firstByte(j.cfg.Timeouts.DraftFirstByte)
	once := j.cfg
	once.RetryAttempts = min(once.RetryAttempts, 1) // a connection that was closed while it was idle costs no audit
	x, err := j.cascade.dispatch(ctx, k, once, j.receipt)
	if err != nil {
		t.dropped("draft_unavailable")
		return false
	}
	return t.read(x)
}

// draftedWhole is drafted for an answer that may call tools.
func (t *twin) draftedWhole(ctx context.Context) bool {
	j := t.job
	k, a := j.draftWholeCall()
	k.turn.Class = 0
	if _, err := j.cascade.question(ctx, k, j.receipt); err != nil {
		t.dropped("draft_unavailable")
		return false
	}
	t.took(a)
	return true
}

// took takes in a draft that came in one piece.
func (t *twin) took(a *openai.DraftAnswer) {
	v := t.judgeWhole(context.Background(), a) // nobody is asked: a twin's course never is in doubt
	t.whole = &v
	t.over = !v.Accept
}

// dropped counts an audit that nothing came of, before its outcome was known.
func (t *twin) dropped(why string) {
	t.job.cascade.metrics.dropped.WithLabelValues(t.job.route.Model, why).Inc()
}

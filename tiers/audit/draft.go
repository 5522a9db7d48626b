package audit

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// Subject is a request whose drafts are audited. It has a Trial.
type Subject struct {
	*inflight.Request
	Auditor *Auditor

	Keep    func() (released func()) // says that something uses the request's body until released is called; nil tells nobody
	Vouched func()                   // called when the target stands by a draft that the warm-up served; nil tells nobody
}

var _ strategy.Auditor = Subject{}

// Draft is a draft that is audited. It sees the chunks that the client's draft takes, or reads its own. When it is over, or
// nobody else has a use for it any more, it goes on in the background, is audited, and ends there. It is for one goroutine.
type Draft struct {
	*draft.Audit
	Subject
	caller inflight.Caller
	cost   receipt.Tally // of the audit
}

var _ strategy.Watcher = (*Draft)(nil)

// draft begins to audit a draft.
func (s Subject) draft() *Draft {
	r := s.Request
	o := draft.Options{Request: r.Body, Config: r.Config, Plan: r.Plan, Schemas: r.Schemas, MaxBytes: r.MaxBody}
	if r.Draft.Card != nil {
		o.EOS = r.Draft.Card.EOS
	}
	return &Draft{
		Audit: draft.NewAudit(o, accept.Nats(r.Trial.Floor(r.Views.Own.Band))), Subject: s,
		caller: inflight.Caller{Request: r, Identity: r.Untraced(), Events: unrecorded{}},
		cost:   receipt.Tally{Prompt: r.Body.PromptTokens},
	}
}

// Watch implements [strategy.Auditor].
func (s Subject) Watch() strategy.Watcher { return s.draft() }

// Whole implements [strategy.Auditor].
func (s Subject) Whole(answer *openai.DraftAnswer) {
	d := s.draft()
	d.SeeWhole(answer)
	d.Over()
}

// Shadow makes a draft in the background, of which the client sees nothing, and audits it.
func (s Subject) Shadow() {
	d := s.draft()
	if !d.start(d.shadow) {
		d.dropped("busy")
	}
}

// Over implements [strategy.Watcher].
func (d *Draft) Over() {
	if !d.start(d.audit) {
		d.dropped("busy")
	}
}

// TakeOver implements [strategy.Watcher]. The context of the exchange must not end with the request's.
func (d *Draft) TakeOver(x *dispatch.Exchange) {
	x.HandOver(unrecorded{}, d.Tokens())
	started := d.start(func(ctx context.Context) {
		stop := d.World.OnCancel(ctx, x.Cancel)
		defer stop()
		if d.read(x) {
			d.audit(ctx)
		}
	})
	if !started {
		x.Close(nil, d.Tokens())
		d.dropped("busy")
	}
}

// start runs a task in the background, which uses the request's body beyond its request; it reports whether there was a
// place for it.
func (d *Draft) start(task func(context.Context)) bool {
	released := func() {}
	if d.Keep != nil {
		released = d.Keep()
	}
	started := d.Auditor.start(d.Deadline(), func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
	}
	return started
}

// read reads the draft to its end; it reports whether it came to one.
func (d *Draft) read(x *dispatch.Exchange) bool {
	var f *engine.Failure
	defer func() { x.Close(f, d.Tokens()) }()
	for d.Wants() {
		want := engine.WantTokens
		if d.WantsTop() {
			want = engine.WantTops
		}
		chunk, err := x.Next(want)
		if err != nil {
			if err != io.EOF {
				f, _ = errors.AsType[*engine.Failure](err)
				d.dropped("draft_lost")
			}
			return false
		}
		d.See(chunk)
	}
	return true
}

// shadow makes the draft and audits it.
func (d *Draft) shadow(ctx context.Context) {
	if !d.Auditor.enter(ctx, d.Config.Risk.AtOnce) {
		d.dropped("busy")
		return
	}
	if d.madeAtPlace(ctx) {
		d.audit(ctx)
	}
}

// madeAtPlace is made with a place that was taken.
func (d *Draft) madeAtPlace(ctx context.Context) bool {
	defer d.Auditor.leave()
	return d.made(ctx)
}

// made has the draft pool write the draft, at the lowest class. It reports whether there is one.
func (d *Draft) made(ctx context.Context) bool {
	if d.Plan.Calls {
		return d.madeWhole(ctx)
	}
	card := d.Request.Draft.Card
	o := d.order(&engine.Draft{
		Terms: d.Terms(d.Request.Draft), Request: d.Body, Counted: card != nil && !card.TokenIDs,
	})
	o.FirstByte = d.FirstByte(d.Config.Timeouts.DraftFirstByte)
	o.Retry.Attempts = min(o.Retry.Attempts, 1) // a connection that was closed while it was idle costs no audit
	x, err := d.caller.Open(ctx, o)
	if err != nil {
		d.dropped("draft_unavailable")
		return false
	}
	return d.read(x)
}

// madeWhole is made for an answer that may call tools.
func (d *Draft) madeWhole(ctx context.Context) bool {
	var answer openai.DraftAnswer
	o := d.order(&engine.DraftWhole{Terms: d.Terms(d.Request.Draft), Request: d.Body, Into: &answer})
	o.Demand.Whole = true
	o.FirstByte = d.whole(d.Config.Timeouts.DraftFirstByte)
	if _, err := d.caller.Ask(ctx, o); err != nil {
		d.dropped("draft_unavailable")
		return false
	}
	d.SeeWhole(&answer)
	return true
}

// order prepares a call to the draft pool.
func (d *Draft) order(call engine.Call) dispatch.Order {
	o := d.caller.Order(d.Request.Draft, call)
	o.Ticket.NoWait, o.Ticket.Class = true, 0
	return o
}

// whole is how long to wait for an answer in one piece from a pool whose first byte may take so long.
func (d *Draft) whole(firstByte time.Duration) time.Duration {
	return d.Config.Timeouts.Whole(d.FirstByte(firstByte), d.Body)
}

// dropped counts an audit that nothing came of, before its outcome was known.
func (d *Draft) dropped(why string) { d.Auditor.Metrics.Dropped(d.Route, why) }

// unrecorded keeps no record of calls.
type unrecorded struct{}

func (unrecorded) Waited(time.Duration)              {}
func (unrecorded) Tried(dispatch.Try, time.Time) int { return 0 }
func (unrecorded) Settled(int, dispatch.Try)         {}
func (unrecorded) Cost(float64)                      {}

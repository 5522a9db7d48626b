package audit

import (
	"context"
	"errors"
	"io"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/strategy"
)

var (
	_ strategy.Auditor = Subject{}
	_ strategy.Watcher = (*Draft)(nil)
)

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
	d.start(d.shadow)
}

// Over implements [strategy.Watcher].
func (d *Draft) Over() { d.start(d.audit) }

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
	}
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

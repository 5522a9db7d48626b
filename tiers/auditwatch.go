package tiers

import (
	"context"
	"errors"
	"io"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// Watch begins the audit of a draft that is streamed to the client. Without a slot the audit ends where that draft does.
func (ad *auditor) Watch() *auditedDraft {
	t, slot := ad.Decision.Audit, false
	if t.Own.Audited {
		if slot = ad.reserve(); !slot {
			t.Own = ad.Views.Own.Within(t.Own)
		}
	}
	d := ad.newDraft()
	d.slot = slot
	return d
}

// Whole audits a draft that came in one piece.
func (ad *auditor) Whole(answer *openai.DraftAnswer) {
	d := ad.newDraft()
	d.ObserveWhole(answer)
	d.End()
}

// Shadow makes and audits a draft in the background that the client never sees. It begins now or never.
func (ad *auditor) Shadow() {
	d := ad.newDraft()
	if d.slot = ad.reserve(); !d.slot {
		d.countDropped("busy")
		return
	}
	d.startAudit(func(ctx context.Context) {
		if d.made(ctx) {
			d.audit(ctx)
		}
	})
}

// End says that the draft is complete.
func (d *auditedDraft) End() { d.startAudit(d.audit) }

// Leave says that the draft ended before it was complete: its client has left, its backend failed, or there was none. What the
// client was shown is audited; if it was shown nothing, nobody got a draft.
func (d *auditedDraft) Leave() {
	if !d.Audit.Leave() {
		d.leave()
		return
	}
	d.startAudit(d.audit)
}

// TakeStream takes ownership of the exchange, whose context must outlive the request, and reads the rest of the draft.
func (d *auditedDraft) TakeStream(x *dispatch.Exchange) {
	x.HandOver(&d.paid, d.Tokens())
	started := d.slot && d.startAudit(func(ctx context.Context) {
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

// read reads the draft to its end and reports whether it is complete.
func (d *auditedDraft) read(x *dispatch.Exchange) bool {
	var f *engine.Failure
	defer func() { x.Close(f, d.Tokens()) }()
	for d.NeedsMore() {
		want := engine.WantTokens
		if d.NeedsTopLogprobs() {
			want = engine.WantTops
		}
		chunk, err := x.Next(want)
		if err != nil {
			if err != io.EOF {
				f, _ = errors.AsType[*engine.Failure](err)
				d.countDropped("draft_lost")
			}
			return false
		}
		d.Observe(chunk, d.World.Now().Sub(d.started) >= d.Config.Holdback)
	}
	return true
}

// made asks the draft pool for the draft, at the lowest priority. It reports whether there is one.
func (d *auditedDraft) made(ctx context.Context) bool {
	if d.Decision.Calls {
		return d.madeWhole(ctx)
	}
	capabilities := d.Request.Draft.Capabilities
	o := d.newRequest(&engine.Draft{
		Terms: d.Terms(d.Request.Draft), Request: d.Body, Counted: capabilities != nil && !capabilities.TokenIDs,
	})
	o.FirstByteTimeout = d.FirstByteTimeout(d.Config.Timeouts.DraftFirstToken)
	o.Retry.MaxRetries = min(o.Retry.MaxRetries, 1) // one retry, because an idle connection may have been closed
	d.started = d.World.Now()
	x, err := d.caller.Open(ctx, o)
	if err != nil {
		d.countDropped("draft_unavailable")
		return false
	}
	return d.read(x)
}

// madeWhole is made for an answer that may call tools.
func (d *auditedDraft) madeWhole(ctx context.Context) bool {
	var answer openai.DraftAnswer
	o := d.newRequest(&engine.Answer{Draft: true, Terms: d.Terms(d.Request.Draft), Request: d.Body, Into: &answer})
	o.Demand.Whole = true
	o.FirstByteTimeout = d.Config.Timeouts.WholeAnswer(d.FirstByteTimeout(d.Config.Timeouts.DraftFirstToken), d.Body)
	if _, err := d.Dispatch.Do(ctx, o); err != nil {
		d.countDropped("draft_unavailable")
		return false
	}
	d.ObserveWhole(&answer)
	return true
}

// newRequest returns a call to the draft pool.
func (d *auditedDraft) newRequest(call engine.Call) dispatch.Request {
	o := d.caller.NewRequest(d.Request.Draft, call)
	o.Ticket.NoWait, o.Ticket.Class, o.Demand.Optional = true, 0, true
	return o
}

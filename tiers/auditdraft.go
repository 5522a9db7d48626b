package tiers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/plan"
)

// auditor audits the drafts of one request, which has an AuditDecision.
type auditor struct {
	*Request

	onLabel func(good bool) // called when it is known whether the target accepts the draft; may be nil
	onSkip  func()          // called when a check of a served draft is not made, or has no answer; may be nil
}

// auditedDraft is a draft that is audited. It observes the chunks of the client's draft, or reads a stream of its own. When
// the stream ends, or the request no longer needs it, it continues in the background. It is for one goroutine.
type auditedDraft struct {
	*draft.Audit
	*auditor
	caller caller
	cost   audit.Tally // tokens of the audit
	paid   paid

	started time.Time // of the draft
	slot    bool      // it has one of the route's slots for audits

	score   float64  // that is audited
	own     bool     // its outcome is evidence for the thresholds of its traffic class
	warmup  bool     // it counts for the warm-up
	tickets []string // of the entries that the evidence has opened
	why     string   // the reason if none was opened
}

// reserve takes a slot for a draft that nobody but the audit may need to its end, before it begins. Only so many drafts
// go on, and only while the draft pool has spare capacity. Whether one does cannot depend on what is in it.
func (ad *auditor) reserve() bool {
	return plan.IsSpare(ad.Draft.Load()) && ad.audits.Tasks.TryEnter(ad.Config.Risk.MaxConcurrentAudits)
}

// enter waits for a slot, unless the audit has one.
func (d *auditedDraft) enter(ctx context.Context) bool {
	d.slot = d.slot || d.audits.Tasks.Enter(ctx, d.Config.Risk.MaxConcurrentAudits)
	return d.slot
}

// leave frees its slot.
func (d *auditedDraft) leave() {
	if d.slot {
		d.slot = false
		d.audits.Tasks.Leave()
	}
}

// newDraft starts the audit of a draft.
func (ad *auditor) newDraft() *auditedDraft {
	r := ad.Request
	return ad.draft(draft.NewAudit(r.DraftOptions(), accept.Nats(r.Decision.Audit.Floor())))
}

// draft returns a draft with the caller of its calls to the engines.
func (ad *auditor) draft(a *draft.Audit) *auditedDraft {
	if ad.Audits == nil {
		ad.Audits = new(atomic.Int64)
	}
	d := &auditedDraft{Audit: a, auditor: ad, cost: audit.Tally{Prompt: ad.Body.PromptTokens}, paid: paid{of: ad.Request}, started: ad.World.Now()}
	d.caller = caller{Request: ad.Request, Identity: ad.Untraced(), Events: &d.paid}
	return d
}

// paid hears what an audit costs at its backends, and books it.
type paid struct {
	dispatch.IgnoreEvents
	of     *Request
	target float64 // of that, of the target's answers
}

// Cost implements [dispatch.Events].
func (p *paid) Cost(c dispatch.Cost) {
	if c.Tier == plan.Target {
		p.target += c.USD
	}
	if n := ledger.NanosOf(c.USD); n != 0 {
		p.of.Audits.Add(int64(n))
		p.of.bookAudit(p.of.Metadata, p.of.Body.Model, n)
	}
}

// startAudit runs an audit in the background. It reports whether there was a slot; without one the audit is dropped.
func (d *auditedDraft) startAudit(task func(context.Context)) bool {
	started := d.start(func(ctx context.Context) {
		defer d.leave()
		task(ctx)
	})
	if !started {
		d.leave()
		d.countDropped("busy")
	}
	return started
}

// start runs a task in the background that uses the request's body after the request's end. It reports whether there was
// a slot.
func (d *auditedDraft) start(task func(context.Context)) bool {
	released := func() {}
	if d.Retain != nil {
		released = d.Retain()
	}
	started := d.audits.Tasks.Start(max(d.Deadline(), auditTime), func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
	}
	return started
}

// settle charges the audit to the route's budget, unless the target had spare capacity for it.
func (d *auditedDraft) settle(spare bool) {
	if spare {
		return
	}
	cost, paid := d.cost.TargetCost(d.TokenPrices().Target()), 0.0
	if d.Target.External() {
		cost, paid = d.paid.target, d.paid.target
	}
	d.audits.Charge(d.Body.Model, &d.Config.Risk, cost, paid)
}

// countDropped counts an audit that ended without an outcome.
func (d *auditedDraft) countDropped(why string) { d.metrics.countDroppedAudit(d.Body.Model, why) }

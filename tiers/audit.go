package tiers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/risk"
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

const (
	// auditTime is the least total time limit of an audit with all its tries.
	auditTime = 10 * time.Minute
	// auditPause is the pause between two tries.
	auditPause = 500 * time.Millisecond
	// auditTries bounds the tries to get the target's label once an audit is open.
	auditTries = 3
)

// audit labels a finished draft by the target and stores the label.
func (d *auditedDraft) audit(ctx context.Context) {
	v := d.Verdict()
	if !v.Accept && !d.IsMalformed(v) {
		return // no threshold in the tested region would serve it
	}
	d.score = float64(v.Score)
	defer func() { d.settle(d.Views.SpareCapacity) }()
	if !d.prepare(ctx) {
		return
	}
	inWords := d.Decision.Auditor == plan.ScorerJudge || d.Config.Risk.Label == plan.LabelRegenerate
	if !v.Accept || d.Left() && inWords { // in words nobody can say whether a beginning is right
		_ = d.openAll(ctx) // it stays bad
		return
	}
	if !d.enter(ctx) {
		d.countDropped("busy")
		return
	}
	good, answered := d.ask(ctx)
	switch {
	case len(d.tickets) == 0:
		d.countDropped(d.why)
	case answered:
		d.close(ctx, !good)
		if d.onLabel != nil {
			d.onLabel(good)
		}
	}
}

// ask asks the target for the label. While the target has no capacity it waits and opens nothing. An open audit that
// fails three times is lost and stays bad.
func (d *auditedDraft) ask(ctx context.Context) (good, answered bool) {
	waiting, cancel := d.World.WithTimeout(ctx, audit.Wait)
	defer cancel()
	for tries := 0; tries < auditTries; {
		good, err := d.label(ctx)
		switch {
		case err == nil:
			return good, true
		case errors.Is(err, errNotOpened), ctx.Err() != nil:
			return false, false
		case len(d.tickets) > 0:
			tries++
		case !isFull(err):
			d.why = FailureReason(err) // the target cannot be asked, for example because the text is too long
			_ = d.openAll(ctx)         // it stays bad
			return false, false
		}
		if d.why = "target_full"; len(d.tickets) == 0 && waiting.Err() != nil || d.World.Sleep(ctx, auditPause) != nil {
			return false, false
		}
	}
	return false, false
}

// isFull reports whether an audit failed because the target has no capacity now.
func isFull(err error) bool {
	if refused, ok := errors.AsType[dispatch.ScoreRefusedError](err); ok {
		return refused != dispatch.ErrScoreTooLong
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok { // of a question before, which may be asked elsewhere,
		return f.Status < 400 || f.Status >= 500 || f.Status == http.StatusTooManyRequests // but for one that nobody answers
	}
	return errors.Is(err, pool.ErrFull) || errors.Is(err, pool.ErrNoBackend)
}

// label asks the target in the way that risk.label says.
func (d *auditedDraft) label(ctx context.Context) (good bool, err error) {
	if d.Config.Risk.Label == plan.LabelRegenerate {
		return d.regenerated(ctx)
	}
	return d.verify(ctx, d.openAll, nil)
}

// verify asks the target to check the draft by the rule of the label, or to compare it with its own answer, if there is one.
// before is called when it has capacity. An audit without an answer counts as bad, so it has longer than for a client's score.
func (d *auditedDraft) verify(ctx context.Context, before func(context.Context) error, own []byte) (good bool, err error) {
	rule := Rule{d.Config.Risk.Label == plan.LabelExact, d.Body.Temperature}
	asker := Verifier{caller: d.caller, Scorer: d.Decision.Auditor, Rule: rule, Own: own, Patience: audit.Wait}
	if before != nil { // whether an audit gets capacity must not depend on the draft's length
		asker.Before, asker.Admission = before, d.Body.PromptTokens+plan.TypicalOutput
		asker.Funded = !d.Views.SpareCapacity && !d.Target.External() // see risk.audit_budget
	}
	r, err := asker.Verify(ctx, NewDraft(d.Draft))
	d.cost.Scored += r.Computed
	return err == nil && r.Pass, err
}

// regenerated lets the target write its own answer. The draft is good if it is the same; otherwise the target compares both
// in words.
func (d *auditedDraft) regenerated(ctx context.Context) (good bool, err error) {
	var own openai.DraftAnswer
	o := d.caller.NewRequest(d.Target, &engine.Answer{Terms: d.Terms(d.Target), Request: d.Body, Into: &own})
	o.Ticket.NoWait, o.Ticket.Class, o.Demand.Whole = true, 0, true // it is for no client
	o.FirstByteTimeout = d.Config.Timeouts.WholeAnswer(d.FirstByteTimeout(d.Config.Timeouts.TargetFirstToken), d.Body)
	o.Before = d.openAll
	if _, err := d.Dispatch.Do(ctx, o); err != nil {
		return false, err
	}
	d.cost.Target += own.Usage.Completion
	good = accept.SameAnswer(d.Transcript().Text(), own.Text)
	if !good && d.Decision.Auditor == plan.ScorerJudge {
		return d.verify(ctx, d.openAll, own.Text)
	}
	return good, nil
}

// prepare finds what the draft is evidence for, and reports whether there is anything. A score that only helps to place a
// grid is stored at once: the target is not asked.
func (d *auditedDraft) prepare(ctx context.Context) bool {
	t := d.Decision.Audit
	d.own = t.Own.Audited && t.Own.Version != 0 && d.score >= t.Own.Floor
	d.warmup = t.Warmup && d.score >= t.Cautious
	if t.Own.Audited && t.Own.Version == 0 {
		d.open(ctx, false)
	}
	return d.own || d.warmup
}

// open opens an entry.
func (d *auditedDraft) open(ctx context.Context, warmup bool) {
	own, ticket := d.Decision.Audit.Own.Of(d.score), d.audits.NewTicket()
	var fate risk.OpenResult
	var err error
	if warmup {
		fate, err = d.audits.Evidence.OpenWarmup(ctx, own.Key, ticket)
	} else {
		f := d.Features()
		fate, err = d.audits.Evidence.Open(ctx, risk.Audit{
			Decision: own, Ticket: ticket, Score: d.score, Features: f[:], Tokens: d.Tokens(), Request: d.ID,
			Application: d.Application,
		})
	}
	switch {
	case err != nil:
		d.why = "evidence_away"
	case fate == risk.Opened:
		d.tickets = append(d.tickets, ticket)
	default:
		d.why = string(fate)
	}
}

// errNotOpened says that the evidence accepted no entry, so the target need not be asked.
var errNotOpened = errors.New("the audit was not booked")

// openAll opens all entries of the draft. It is called when the target has capacity, before the question is sent; and for a
// draft that the target is not or cannot be asked about, which stays bad: without those the promise would exclude such drafts.
func (d *auditedDraft) openAll(ctx context.Context) error {
	if len(d.tickets) > 0 {
		return nil // a second try: all is open already
	}
	if d.own {
		d.open(ctx, false)
	}
	if d.warmup {
		d.open(ctx, true)
	}
	if len(d.tickets) == 0 {
		return errNotOpened
	}
	return nil
}

// close stores the outcome of the open entries.
func (d *auditedDraft) close(ctx context.Context, bad bool) {
	v, own := &d.Views.Own, &d.Decision.Audit.Own
	d.metrics.applications.countAudit(d.Request, own.Of(d.score).Chance, !bad)
	if best := min(own.Threshold, v.Cautious); d.score >= best {
		d.audits.Classes.Settle(own.Key, d.Caller.Tenant, bad, d.Config.Risk.Rule, d.World.Now())
	}
	for _, ticket := range d.tickets {
		for try := 1; ; try++ {
			err := d.audits.Evidence.Close(ctx, own.Key, ticket, bad)
			if err == nil || try == auditTries || d.World.Sleep(ctx, auditPause) != nil {
				break // an entry that cannot be closed stays bad
			}
		}
	}
}

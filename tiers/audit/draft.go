package audit

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// RequestAuditor is a request whose drafts are audited. It has a Trial.
type RequestAuditor struct {
	*inflight.Request
	Auditor *Auditor

	RetainBody    func() (released func()) // says that something uses the request's body until released is called; nil tells nobody
	OnAuditPassed func()                   // called when the target stands by a draft that the warm-up served; nil tells nobody
}

// Draft is a draft that is audited. It sees the chunks that the client's draft takes, or reads its own. When it is over, or
// nobody else has a use for it any more, it goes on in the background, is audited, and ends there. It is for one goroutine.
type Draft struct {
	*draft.Audit
	RequestAuditor
	caller inflight.Caller
	cost   receipt.Tally // of the audit
}

// newDraft begins to audit a draft.
func (s RequestAuditor) newDraft() *Draft {
	r := s.Request
	return &Draft{
		Audit: draft.NewAudit(strategy.DraftOptions(r), accept.Nats(r.AuditDecision.Floor(r.Views.Own.Band))), RequestAuditor: s,
		caller: inflight.Caller{Request: r, Identity: r.Untraced(), Events: ignoreEvents{}},
		cost:   receipt.Tally{Prompt: r.Body.PromptTokens},
	}
}

// start runs a task in the background, which uses the request's body beyond its request; it reports whether there was a
// place for it. An audit without one is dropped.
func (d *Draft) start(task func(context.Context)) bool {
	released := func() {}
	if d.RetainBody != nil {
		released = d.RetainBody()
	}
	started := d.Auditor.start(d.Deadline(), func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
		d.countDropped("busy")
	}
	return started
}

// whole is how long to wait for an answer in one piece from a pool whose first byte may take so long.
func (d *Draft) whole(firstByte time.Duration) time.Duration {
	return d.Config.Timeouts.WholeAnswer(d.FirstByteTimeout(firstByte), d.Body)
}

// end books what the audit cost.
func (d *Draft) end() {
	cost, priced := TargetCost(d.cost, d.Auditor.Prices(d.Route))
	if !d.Views.SpareCapacity {
		d.Auditor.charge(d.Route, cost)
	}
	if !priced {
		cost = 0 // it is in tokens
	}
	d.Auditor.Metrics.CountAudit(d.Route, d.cost.Scored, cost)
}

// countDropped counts an audit that nothing came of, before its outcome was known.
func (d *Draft) countDropped(why string) { d.Auditor.Metrics.CountDroppedAudit(d.Route, why) }

// ignoreEvents keeps no record of calls.
type ignoreEvents struct{}

func (ignoreEvents) Waited(time.Duration)              {}
func (ignoreEvents) Tried(dispatch.Try, time.Time) int { return 0 }
func (ignoreEvents) Settled(int, dispatch.Try)         {}
func (ignoreEvents) Cost(float64)                      {}

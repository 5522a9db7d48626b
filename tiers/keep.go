package tiers

import (
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/strategy"
)

// keep decides whether an answer may be kept for others at once. If the target must accept its draft first, it says so,
// and starts the check unless an audit makes it. Without capacity there is no check, and a doubtful draft is not kept.
func (c *Cascade) keep(r *inflight.Request, a *Request, o strategy.Outcome) {
	served := plan.Served{Verdict: o.Verdict, Whole: o.Served != nil && o.Tier == plan.Draft, Accepted: o.Accepted}
	keeping := r.Config.KeepingOf(served, r.AuditDecision, r.Views.Own)
	if keeping == plan.KeepNow {
		return
	}
	confirmation := a.Confirmation // alone, so that the request stays on the stack
	confirmation.Await()
	if keeping == plan.KeepIfAudited {
		return
	}
	s := audit.RequestAuditor{Request: r, Auditor: c.audits, OnLabel: confirmation.Confirm}
	if keeping == plan.KeepUnlessRejected {
		s.OnSkip = func() { confirmation.Confirm(true) }
	}
	if a.Retainer != nil {
		s.RetainBody = a.Retainer.Retain
	}
	s.Check(o.Served, plan.IsSpare(r.Target.Load()))
}

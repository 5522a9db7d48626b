package tiers

import (
	"context"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/application"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
)

// arrive takes a request up: it reads the settings of its route and what its engines can do, once, and says what they
// allow. Nothing is decided yet, and the response cache may have the answer. salt is its [Request.Salt].
func (c *Cascade) arrive(a Arrival, salt string) *Request {
	rt := a.Route
	r := &Request{Arrival: a, Config: rt.Config(), Prices: rt.Prices, Services: &c.Services, Salt: salt, RAG: ragDigest(a.Caller.RAGHash, a.Body)}
	r.applySettings()
	r.Config = r.Config.Stricter(a.Demand)
	if a.Caller.Priority == identity.Low {
		r.Config = r.Config.ForLow()
	}
	r.Facts = c.facts(rt, a.Body, a.Demand.Tier)
	if a.Caller.PerTenantEvidence {
		r.Facts.EvidenceTenant = a.Caller.Tenant
	}
	r.Plan = plan.Make(r.Config, r.Facts)
	system, first := a.Body.Head()
	r.Needs = plan.DemandOf(a.Body, prefix.Head{Tenant: a.Caller.Tenant, RAG: r.RAG, System: system, First: first})
	r.Target = Pool{Pool: rt.Target, Capabilities: r.Facts.Target, Tier: plan.Target}
	if rt.Draft != nil {
		r.Draft = Pool{Pool: rt.Draft, Capabilities: r.Facts.Draft, Tier: plan.Draft}
	}
	return r
}

// applySettings puts into force what operators have set for the request's application.
func (r *Request) applySettings() {
	rt := r.Arrival.Route
	if rt.Draft == nil || rt.Applications == nil {
		return
	}
	own := rt.Applications()
	if len(own) == 0 {
		return
	}
	r.findApplication()
	a := own[r.Application]
	if r.Config = r.Config.Of(a); a.Name != "" {
		r.ApplicationName = r.Caller.Tenant + "/" + a.Name
	}
}

// findApplication finds which application the request is of.
func (r *Request) findApplication() {
	if r.Application == "" {
		r.Application = application.Of(r.Body, r.Caller.Tenant, r.Caller.Application, r.Salt)
		r.ApplicationName = r.Application
	}
}

// answer decides how a request is answered, answers it, and learns from the outcome. The request has a receipt afterwards,
// also with an error. After an error before the first byte nothing was written. After the first byte the error is a
// *[BrokenError] or the sink's own. When the client disconnects, ctx ends and all upstream calls are cancelled.
func (c *Cascade) answer(ctx context.Context, r *Request, to Delivery) error {
	r.Receipt = NewReceipt(r.Body.Model, c.World.Now())
	c.decide(r)
	err := r.answer(ctx, to, r.auditor(to.Confirmation))
	c.settle(r, err)
	if err == nil && to.Confirmation != nil {
		r.keep(to.Confirmation)
	}
	return err
}

// decide reads what a decision depends on, and makes it.
func (c *Cascade) decide(r *Request) {
	in := plan.Inputs{Plan: r.Plan, Config: &r.Config, Request: r.Body, Rejected: r.Rejected}
	if r.Plan.Judged && !r.Rejected {
		in.Scarce = c.scarce.look(r)
		c.read(r, &in)
	}
	r.Decision = plan.Decide(&in)
	if in.Views != nil && !r.Decision.IsKeptFromDraft() {
		c.audits.Classes.CountInMix(in.Key, r.mixKey())
	}
	t := r.Decision.Audit
	if t == nil {
		return
	}
	if t.Own.Audited {
		c.audits.Classes.AddAudit(in.Key, r.Caller.Tenant, c.World.Now())
	}
	if r.Views.Own.New && r.Views.IsFirstTime(&r.Config.Risk) {
		c.audits.Evidence.Drafted(in.Key, 0, 0) // start the warm-up now, not at the end of the first answer
	}
}

// mixKey is what the request counts as in the mix of its traffic class.
func (r *Request) mixKey() audit.MixKey {
	return audit.MixKey{Application: r.Application, Shadow: r.Config.Mode == plan.ModeShadow}
}

// read reads prices, statistics, evidence and load for a draft that would be judged.
func (c *Cascade) read(r *Request, in *plan.Inputs) {
	in.Prices, in.Expected = r.TokenPrices(), c.costs.Expect(trafficClassOf(r, &r.Plan))
	if in.Prices.Complete() { // else nothing is weighed
		in.Cached = economy.Cached{Draft: r.Draft.Cached(&r.Needs), Target: r.Target.Cached(&r.Needs)}
	}
	in.Explore = c.Random(r.ID, DrawExplore)
	if !r.Config.Mode.Audited() {
		return
	}
	in.All = c.auditsAll(r.Body.Model) // before the draft exists, and by earlier audits only
	in.Key = plan.EvidenceKeyOf(r.Config, r.Facts)
	if r.Facts.EvidenceTenant == "" && c.audits.Classes.IsApart(in.Key, r.Caller.Tenant, c.World.Now()) {
		r.Facts.EvidenceTenant = r.Caller.Tenant
		in.Key = plan.EvidenceKeyOf(r.Config, r.Facts)
	}
	r.findApplication()
	in.Application = r.Application
	r.Views = c.audits.Views(in.Key, r.mixKey()).UnderLoad(&r.Config.Risk, r.Target.Load())
	in.Views, in.Draw = &r.Views, 1
	if c.audits.MayAudit(r.Body.Model, &r.Config.Risk, r.Views.SpareCapacity) && c.audits.Classes.MayAudit(in.Key, r.Caller.Tenant, c.World.Now()) {
		in.Draw = c.Random(r.ID, DrawAudit)
	}
}

// auditor returns the auditor of the request's draft, or nil if the draft is not audited. It starts shadow drafts.
func (r *Request) auditor(confirmation *confirmation) *auditor {
	t, by := r.Decision.Audit, &auditor{Request: r}
	switch {
	case t == nil || !t.Own.Audited && !t.Shadow:
		return nil
	case t.Shadow:
		by.Shadow()
		return nil
	case confirmation != nil:
		by.onLabel = confirmation.confirm
	}
	return by
}

// keep decides whether an answer may be kept for others at once. If the target must accept its draft first, it says so,
// and starts the check unless an audit makes it. Without capacity there is no check, and a doubtful draft is not kept.
func (r *Request) keep(confirmation *confirmation) {
	served := plan.Served{Verdict: r.Verdict, Whole: r.Served != nil && r.Tier == plan.Draft, Accepted: r.AcceptedTokens}
	keeping := r.Config.KeepingOf(served, &r.Decision, r.Views.Own)
	if keeping == plan.KeepNow {
		return
	}
	confirmation.awaited = true
	if keeping == plan.KeepIfAudited {
		return
	}
	by := &auditor{Request: r, onLabel: confirmation.confirm}
	if keeping == plan.KeepUnlessRejected {
		by.onSkip = func() { confirmation.confirm(true) }
	}
	by.Check(r.Served, plan.IsSpare(r.Target.Load()))
}

// trafficClassOf returns the traffic class whose cost statistics apply to a judged request.
func trafficClassOf(r *Request, p *plan.Plan) economy.TrafficClass {
	return economy.TrafficClass{
		Route: r.Body.Model, Variant: r.Facts.Variant, Mode: string(p.Mode), Prompt: economy.LengthOf(r.Body.PromptTokens), Whole: p.Whole,
	}
}

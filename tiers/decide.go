package tiers

import (
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
)

// decide makes the plan of r, whose settings are set: which tiers may answer, what each is expected to cost, and in the audited
// modes the threshold for its draft and the settings by which that is judged. It writes into r, because these are large: copies
// on the stack would double the stack of each stream.
func (c *Cascade) decide(rt *Route, r *inflight.Request, a *Request, f plan.Facts) {
	r.Plan = plan.Make(r.Config, f)
	if a.Plan != nil && !a.Plan.Judged { // the capabilities may have changed since that plan
		r.Plan = *a.Plan
	}
	if r.Plan.Judged {
		c.weigh(rt, r, a, f)
	}
}

// weigh decides about a draft that would be judged: by its cost, and in the audited modes by the evidence.
func (c *Cascade) weigh(rt *Route, r *inflight.Request, a *Request, f plan.Facts) {
	draw := func(p inflight.Purpose) float64 { return c.services.Random(a.ID, p) }
	w := plan.Weights{
		Prices: r.TokenPrices(), Expected: c.costs.Expect(trafficClassOf(r)), Draw: draw(inflight.DrawExplore),
	}
	if !r.Config.Mode.Audited() {
		r.Config.Accept.ScoreMap = nil // its thresholds are those of the audited modes
		r.Plan = r.Plan.Weigh(r.Config, a.Body, w)
		return
	}
	if c.auditsAll(rt.Model) {
		r.Config.Risk.Rates.FullRange = 1 // before the draft exists, and by earlier audits only
	}
	key := plan.EvidenceKeyOf(r.Config, f)
	if f.EvidenceTenant == "" && c.audits.Tenants.IsApart(audit.Tenant{Key: key, ID: r.Tenant}, c.now()) {
		f.EvidenceTenant = r.Tenant
		key = plan.EvidenceKeyOf(r.Config, f)
	}
	views := c.audits.Views(key)
	r.Views = views.UnderLoad(&r.Config.Risk, rt.Target.Load())
	w.Expected = r.Views.Expected(&r.Config, w.Expected)
	r.Plan = r.Plan.Weigh(r.Config, a.Body, w)
	random, whose := 1.0, audit.Tenant{Key: key, ID: r.Tenant} // 1 is never below a rate
	if c.audits.MayAudit(rt.Model, &r.Config.Risk, r.Views.SpareCapacity) && c.audits.Tenants.MayAudit(whose, c.now()) {
		random = draw(inflight.DrawAudit)
	}
	cfg := &r.Config
	r.Plan, *cfg, r.AuditDecision = r.Plan.ApplyEvidence(*cfg, key, r.Views, random)
	if r.AuditDecision != nil && r.AuditDecision.Own.Audited {
		c.audits.Tenants.Add(whose, c.now())
	}
	if r.Views.Own.New && r.AuditDecision != nil && r.Views.IsFirstTime(&cfg.Risk) {
		c.evidence.Drafted(key, 0, 0) // start the warm-up now, not at the end of the first answer
	}
}

// trafficClassOf returns the traffic class whose cost statistics apply to a judged request.
func trafficClassOf(r *inflight.Request) economy.TrafficClass {
	class := economy.TrafficClassOf(r.Body.Model, string(r.Plan.Mode), r.Body.PromptTokens, r.Plan.Whole)
	class.Variant = r.Variant
	return class
}

package tiers

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// decision is how a request is answered.
type decision struct {
	plan  plan.Plan
	cfg   plan.Config         // the draft is judged by this
	audit *plan.AuditDecision // in the modes risk and shadow; nil in others
	views plan.Views          // the evidence that was used
}

// decide makes the plan of a request: which tiers may answer, what each is expected to cost, and in the audited modes
// the threshold for its draft.
func (c *Cascade) decide(rt *Route, cfg plan.Config, a *Request, f plan.Facts) decision {
	r, draw := a.Body, func(p inflight.Purpose) float64 { return c.services.Random(a.ID, p) }
	p := plan.Make(cfg, f)
	if a.Plan != nil && !a.Plan.Judged { // the capabilities may have changed since that plan
		p = *a.Plan
	}
	if !p.Judged {
		return decision{plan: p, cfg: cfg}
	}
	w := plan.Weights{
		Prices: c.pricesOf(rt.Model), Expected: c.costs.Expect(trafficClassOf(r, p)), Load: rt.Target.Load(), Draw: draw(inflight.DrawExplore),
	}
	if !cfg.Mode.Audited() {
		return c.applyPressureMode(rt, a, p, decision{plan: p.Weigh(cfg, r, w), cfg: cfg})
	}
	if missing := c.selectScoreMap(rt, &cfg); missing != "" {
		return decision{plan: plan.Plan{Tier: plan.Target, Reason: missing}, cfg: cfg}
	}
	kind, views := c.audits.Views(&cfg, plan.EvidenceKeysOf(cfg, f))
	views = views.UnderLoad(&cfg.Risk, w.Load)
	w.Expected = views.Expected(&cfg, w.Expected)
	d := decision{views: views, plan: p.Weigh(cfg, r, w)}
	random := 1.0 // never below a rate
	if c.audits.MayAudit(rt.Model, &cfg.Risk, views.SpareCapacity) {
		random = draw(inflight.DrawAudit)
	}
	d.plan, d.cfg, d.audit = d.plan.ApplyEvidence(cfg, kind, views, random)
	if views.Own.New && d.audit != nil && views.IsFirstTime(&cfg.Risk) {
		c.evidence.Drafted(kind.Own, 0, 0) // start the warm-up now, not at the end of the first answer
	}
	return c.applyPressureMode(rt, a, p, d)
}

// trafficClassOf returns the traffic class whose cost statistics apply to a judged request.
func trafficClassOf(r *openai.Request, p plan.Plan) economy.TrafficClass {
	return economy.TrafficClassOf(r.Model, string(p.Mode), r.PromptTokens, p.Whole)
}

// selectScoreMap sets the calibrated score that risk.score_version names. It returns the reason if that is missing, else
// "".
func (c *Cascade) selectScoreMap(rt *Route, cfg *plan.Config) (missing string) {
	if cfg.Risk.ScoreVersion == 0 {
		return ""
	}
	if cfg.Accept.ScoreMap = c.scoreMaps(rt.Model, cfg.Risk.ScoreVersion); cfg.Accept.ScoreMap == nil {
		return "score_unknown"
	}
	return ""
}

// applyPressureMode allows a draft below the threshold if the target is about to shed the request's priority class and
// the tenant permits it. planned is the plan before its cost was estimated. The target does not check such a draft, and
// it is not covered by any promise.
func (c *Cascade) applyPressureMode(rt *Route, a *Request, planned plan.Plan, d decision) decision {
	if !d.cfg.Risk.AllowLowScore || d.cfg.Mode == plan.ModeShadow || !a.AllowLowScore || planned.CheckPolicy > accept.CheckDoubtful ||
		a.Class >= highestClass || !c.underPressure(rt.Model, rt.Target.Name(), a.Class) {
		return d
	}
	if !d.plan.Judged || d.audit != nil && d.audit.Warmup {
		d.cfg.Accept.Threshold = unreachableScore // without a certified threshold every draft counts as below it
	}
	if d.audit != nil {
		d.audit.Shadow, d.audit.Warmup = false, false
	}
	planned.CheckPolicy, planned.Scorer, planned.AllowLowScore, planned.Estimate = accept.CheckNever, plan.ScorerNone, true, d.plan.Estimate
	d.plan = planned
	return d
}

const (
	// highestClass is the priority class that never gets a draft below the threshold.
	highestClass = 2
	// unreachableScore is a score that no draft has.
	unreachableScore accept.Nats = 1e9
)

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
	cfg   plan.Config // by which its draft is judged
	trial *plan.Trial // in the modes risk and shadow; nil in others
	views plan.Views  // that it was decided by
}

// decide decides how the request is answered: what it may be answered by, what that is expected to
// cost, and in the audited modes by which threshold a draft is judged.
func (c *Cascade) decide(rt *Route, cfg plan.Config, a *Ask, f plan.Facts) decision {
	r, draw := a.Request, func(p inflight.Purpose) float64 { return c.tools.Random(a.ID, p) }
	p := plan.Make(cfg, f)
	if a.Plan != nil && !a.Plan.Judged { // what is known of the engines may be more now
		p = *a.Plan
	}
	if !p.Judged {
		return decision{plan: p, cfg: cfg}
	}
	w := plan.Weights{
		Prices: c.pricesOf(rt.Model), Expected: c.book.Expect(bucketOf(r, p)), Load: rt.Target.Load(), Draw: draw(inflight.DrawExplore),
	}
	if !cfg.Mode.Audited() {
		return c.press(rt, a, p, decision{plan: p.Weigh(cfg, r, w), cfg: cfg})
	}
	if lacks := c.calibrate(rt, &cfg); lacks != "" {
		return decision{plan: plan.Plan{Tier: plan.Target, Reason: lacks}, cfg: cfg}
	}
	kind, views := c.audits.Views(&cfg, plan.KindOf(cfg, f))
	views = views.Under(&cfg.Risk, w.Load)
	w.Expected = views.Expected(&cfg, w.Expected)
	d := decision{views: views, plan: p.Weigh(cfg, r, w)}
	dice := 1.0 // never below a rate
	if c.audits.May(rt.Model, &cfg.Risk, views.Spare) {
		dice = draw(inflight.DrawAudit)
	}
	d.plan, d.cfg, d.trial = d.plan.Try(cfg, kind, views, dice)
	if views.Own.New && d.trial != nil && views.Early(&cfg.Risk) {
		c.evidence.Drafted(kind.Own, 0, 0) // the warm-up begins now, not when the first answer ends
	}
	return c.press(rt, a, p, d)
}

// bucketOf is the class of requests that a judged one is of, for what is learned of drafts.
func bucketOf(r *openai.Request, p plan.Plan) economy.Bucket {
	return economy.BucketOf(r.Model, string(p.Mode), r.PromptTokens, p.Whole)
}

// calibrate takes the score that the setting names; it says why it cannot, "" where it can.
func (c *Cascade) calibrate(rt *Route, cfg *plan.Config) (lacks string) {
	if cfg.Risk.Map == 0 {
		return ""
	}
	if cfg.Accept.Map = c.maps(rt.Model, cfg.Risk.Map); cfg.Accept.Map == nil {
		return "score_unknown"
	}
	return ""
}

// press lets a draft below the threshold be the answer where the target is about to turn the
// request's class away and its tenant allows that. planned is the plan before anybody asked what
// it is worth. Nobody is asked about such a draft, and it is no part of any promise.
func (c *Cascade) press(rt *Route, a *Ask, planned plan.Plan, d decision) decision {
	if !d.cfg.Risk.Pressed || d.cfg.Mode == plan.ModeShadow || !a.Spared || planned.Ask > accept.AskDoubt ||
		a.Class >= highest || !c.short(rt.Model, rt.Target.Name(), a.Class) {
		return d
	}
	if !d.plan.Judged || d.trial != nil && d.trial.Warmup {
		d.cfg.Accept.Threshold = unreachable // what nothing certifies is not told apart from what is below it
	}
	if d.trial != nil {
		d.trial.Shadow, d.trial.Warmup = false, false
	}
	planned.Ask, planned.Scorer, planned.Pressed, planned.Sums = accept.AskNever, plan.ScorerNone, true, d.plan.Sums
	d.plan = planned
	return d
}

const (
	// highest is the class that is never answered below the threshold.
	highest = 2
	// unreachable is a score that no draft has.
	unreachable accept.Nats = 1e9
)

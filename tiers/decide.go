package tiers

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
)

// plan decides how the request is answered: what it may be answered by, what that is expected to
// cost, and in the audited modes by which threshold a draft is judged.
func (j *job) plan() {
	c, rt, r := j.cascade, j.route, j.ask.Request
	f := c.facts(rt, r, j.ask.Tier)
	if j.ask.Apart {
		f.Apart = j.ask.Tenant
	}
	p := plan.Make(j.cfg, f)
	if j.ask.Plan != nil && !j.ask.Plan.Judged { // what is known of the engines may be more now
		p = *j.ask.Plan
	}
	if !p.Judged {
		j.receipt.Plan = p
		return
	}
	planned, e := p, c.book.Expect(bucketOf(r, p))
	if j.cfg.Mode.Audited() {
		if lacks := j.calibrate(); lacks != "" {
			j.receipt.Plan = plan.Plan{Tier: plan.Target, Reason: lacks}
			return
		}
		kind := plan.KindOf(j.cfg, f)
		kind, j.views = c.views(j.cfg, kind)
		j.views = j.views.Under(&j.cfg.Risk, rt.Target.Load())
		p = c.weigh(rt, j.cfg, r, p, j.views.Expected(&j.cfg, e))
		dice := 1.0 // never below a rate
		if c.audits.may(rt.Model, &j.cfg.Risk, j.views.Spare) {
			dice = c.dice()
		}
		p, j.cfg, j.trial = p.Try(j.cfg, kind, j.views, dice)
		if j.views.Own.New && j.trial != nil && j.views.Early(&j.cfg.Risk) {
			c.evidence.Drafted(kind.Own, 0, 0) // the warm-up begins now, not when the first answer ends
		}
	} else {
		p = c.weigh(rt, j.cfg, r, p, e)
	}
	j.receipt.Plan, j.receipt.Trial = p, j.trial
	j.press(planned)
}

// calibrate takes the score that the setting names; it says why it cannot, "" where it can.
func (j *job) calibrate() (lacks string) {
	if j.cfg.Risk.Map == 0 {
		return ""
	}
	if j.cfg.Accept.Map = j.cascade.maps(j.route.Model, j.cfg.Risk.Map); j.cfg.Accept.Map == nil {
		return "score_unknown"
	}
	return ""
}

// views are what is known of a kind of request now.
func (c *Cascade) views(cfg plan.Config, k plan.Kind) (plan.Kind, plan.Views) {
	now, n := c.now(), float64(max(c.replicas(), 1))
	v := plan.Views{Own: c.evidence.View(k.Own), PerMinute: n * c.audits.rate(k.Own, now), Now: now}
	k = k.At(v.Own.Op)
	if cfg.Head != plan.HeadOff && v.Own.Serves() {
		v.Head = c.evidence.View(k.Head)
	}
	if cfg.Risk.Inherit {
		v.Route, v.RoutePerMinute = c.evidence.View(k.Route), n*c.audits.rate(k.Route, now)
	}
	return k, v
}

// press lets a draft below the threshold be the answer where the target is about to turn the
// request's class away and its tenant allows that. planned is the plan before anybody asked what
// it is worth. Nobody is asked about such a draft, and it is no part of any promise.
func (j *job) press(planned plan.Plan) {
	if !j.cfg.Risk.Pressed || j.cfg.Mode == plan.ModeShadow || !j.ask.Spared || !planned.Judged || planned.Ask > accept.AskDoubt ||
		j.ask.Class >= highest || !j.cascade.short(j.route.Model, j.route.Target.Name(), j.ask.Class) {
		return
	}
	if !j.receipt.Plan.Judged || j.trial != nil && j.trial.Warmup {
		j.cfg.Accept.Threshold = unreachable // what nothing certifies is not told apart from what is below it
	}
	if j.trial != nil {
		j.trial.Shadow, j.trial.Warmup = false, false
	}
	planned.Ask, planned.Scorer, planned.Pressed, planned.Sums = accept.AskNever, plan.ScorerNone, true, j.receipt.Plan.Sums
	j.receipt.Plan = planned
}

const (
	// highest is the class that is never answered below the threshold.
	highest = 2
	// unreachable is a score that no draft has.
	unreachable accept.Nats = 1e9
)

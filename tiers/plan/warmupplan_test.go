package plan

import (
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/risk"
)

func TestTryInAWarmup(t *testing.T) {
	now := time.Unix(1000, 0)
	early := risk.View{Cautious: 1e9, Threshold: 1e9, Floor: -1e9, Seen: now, Warmup: risk.Warmup{Began: now.UnixMicro() - 1}}
	known := early
	known.Cautious, known.Version, known.Hi, known.Floor = 0.4, 1, 3, 0.4
	with := func(v risk.View, change func(*risk.View)) risk.View { change(&v); return v }
	warm := risk.View{Version: 1, Op: 5, Hi: 8, Threshold: 0.3, Floor: 0, Seen: now}
	drafted := Plan{Tier: Draft, Judged: true, Mode: ModeRisk, Auditor: ScorerIDs}
	for _, tc := range []struct {
		what      string
		plan      Plan
		own       risk.View
		change    func(*Config)
		random    float64
		warmup    bool
		waits     bool // for outcomes
		threshold accept.Nats
		audited   bool
	}{
		{what: "by the prior", own: early, warmup: true, threshold: cautiousScore, audited: true},
		{what: "by the best third", own: known, warmup: true, threshold: 0.4, audited: true},
		{what: "no audit is to be had", own: known, random: 1, warmup: true, threshold: 0.4},
		{what: "by a fitted score of which nothing is known", own: early, change: func(c *Config) { c.Accept.ScoreMap = &accept.ScoreMap{Version: 1} }, threshold: 1e9, audited: true},
		{what: "by a fitted score", own: known, change: func(c *Config) { c.Accept.ScoreMap = &accept.ScoreMap{Version: 1} }, warmup: true, threshold: 0.4, audited: true},
		{what: "the evidence is not known", own: with(known, func(v *risk.View) { v.Seen = time.Time{} }), threshold: 1e9, audited: true},
		{what: "the evidence is too old", own: with(known, func(v *risk.View) { v.Seen = now.Add(-time.Minute - 1) }), threshold: 1e9, audited: true},
		{what: "it is as old as it may be", own: with(known, func(v *risk.View) { v.Seen = now.Add(-time.Minute) }), warmup: true, threshold: 0.4, audited: true},
		{what: "it has not begun", own: with(known, func(v *risk.View) { v.Warmup.Began = 0 }), threshold: 1e9, audited: true},
		{what: "it has not begun, and this is the first request", own: with(known, func(v *risk.View) { v.Warmup.Began, v.New = 0, true }), warmup: true, threshold: 0.4, audited: true},
		{what: "fifty were served, and no audit has an outcome", own: with(known, func(v *risk.View) { v.Warmup.Served = 50 }), warmup: true, waits: true, threshold: 0.4, audited: true},
		{what: "too few audits have an outcome, and the dice say no", own: with(known, func(v *risk.View) { v.Warmup.Served = 50 }), random: .9, warmup: true, waits: true, threshold: 0.4},
		{what: "as many were served as outcomes allow", own: with(known, func(v *risk.View) { v.Warmup.Served, v.Warmup.Audits = 69, 1 }), warmup: true, threshold: 0.4, audited: true},
		{what: "it has ended", own: with(known, func(v *risk.View) { v.Warmup.Ended = risk.WarmupDisagreement }), threshold: 1e9, audited: true},
		{what: "infeasible", own: with(known, func(v *risk.View) { v.Infeasible = true }), threshold: 1e9, audited: true},
		{what: "the guard has shut it out", plan: Plan{Tier: Target, Reason: economy.ReasonNoSaving, Auditor: ScorerIDs}, own: known, threshold: 1e9, audited: true},
		{what: "the guard has, and the dice say no", plan: Plan{Tier: Target, Reason: economy.ReasonNoSaving, Auditor: ScorerIDs}, own: known, random: .9, threshold: 1e9},
		{what: "certified", own: warm, threshold: 0.3, audited: true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			cfg := planConfig()
			cfg.Mode = ModeRisk
			cfg.Risk = Risk{MaxConcurrentAudits: 4, Warmup: true, WarmupDuration: time.Hour, MaxStaleness: 24 * time.Hour, Rates: risk.Rates{Audit: .05, ColdStart: .5, ColdStartPerMinute: 1e9, Explore: .02}}
			if tc.change != nil {
				tc.change(&cfg)
			}
			if tc.plan.Tier == "" {
				tc.plan = drafted
			}
			v := Views{Own: tc.own, Now: now}
			d := certify(cfg, tc.plan, v, tc.random)
			p, decision := d.Plan, d.Audit
			if decision.Warmup != tc.warmup || d.Accept.Threshold != tc.threshold || decision.Own.Audited != tc.audited {
				t.Errorf("%+v by %g: %+v", decision, d.Accept.Threshold, p)
			}
			if tc.waits && decision.Shadow != tc.audited {
				t.Errorf("in the shadow: %v", decision.Shadow)
			}
			if serves := tc.warmup && !tc.waits || tc.own.Serves(); (p.Tier == Draft) != serves || p.Judged != serves {
				t.Errorf("%+v", p)
			}
			if tc.warmup && decision.Floor() > decision.Cautious && tc.audited {
				t.Errorf("what is served is not audited: floor %g", decision.Floor())
			}
		})
	}
}

func TestTheFirstTimeOfAKindSparesTheBudgetOnlyWhileTheTargetIsIdle(t *testing.T) {
	now := time.Unix(1000, 0)
	r := Risk{WarmupDuration: time.Hour, Rates: risk.Rates{Audit: .05, Boost: 4, ColdStart: .5, ColdStartPerMinute: 1, Explore: .02}}
	early := Views{Own: risk.View{Version: 1, Hi: 3}, PerMinute: 1000, Now: now}
	usual := r.Rates.AuditRate(early.Own, early.PerMinute)
	for what, tc := range map[string]struct {
		change func(*Views)
		load   float64
		spare  bool
		audits float64 // share of the drafts
	}{
		"idle":             {func(*Views) {}, .5, true, .5},
		"busy":             {func(*Views) {}, .51, false, usual},
		"unknown":          {func(*Views) {}, math.NaN(), false, usual},
		"over":             {func(v *Views) { v.Own.Warmup.Began = now.Add(-time.Hour).UnixMicro() }, 0, false, usual},
		"ended":            {func(v *Views) { v.Own.Warmup = risk.Warmup{Began: 1, Ended: risk.WarmupDisagreement} }, 0, true, .5},
		"certified":        {func(v *Views) { v.Own.Op, v.Own.Warmup = 1, risk.Warmup{Began: 1, Ended: risk.WarmupCertified} }, 0, true, .2},
		"all is certified": {func(v *Views) { v.Own.Op, v.Own.Warmup = 3, risk.Warmup{Began: 1, Ended: risk.WarmupCertified} }, 0, false, .05},
		"infeasible": {func(v *Views) {
			v.Own.Infeasible, v.Own.Warmup = true, risk.Warmup{Began: 1, Ended: risk.WarmupInfeasible}
		}, 0, false, .02},
		"certified by an import": {func(v *Views) { v.Own.Op, v.Own.Warmup.Ended = 1, risk.WarmupCertified }, 0, false, .05},
	} {
		v := early
		tc.change(&v)
		v = v.UnderLoad(&r, tc.load)
		kind := v.auditRate(&r, v.Own, false, false)
		if v.SpareCapacity != tc.spare || math.Abs(kind-tc.audits) > 1e-9 {
			t.Errorf("%s: spare %v, %g of the drafts", what, v.SpareCapacity, kind)
		}
	}
}

package tiers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/risk"
)

// warmRig is a rig in mode risk whose only kind of request is in its warm-up.
func warmRig(t *testing.T, draft vllmsim.Options, grid risk.Grid) (*rig, *notebook) {
	t.Helper()
	r, n := auditedRig(t, draft, vllmsim.Options{})
	n.grid = grid
	r.cfg.Risk.Warmup, r.cfg.Risk.WarmupFor = true, time.Hour
	n.rule.Eps, n.rule.Delta = 0.45, 1e-100 // so that it goes on
	r.cfg.Risk.Rule = n.rule
	if _, rc, err := r.ask(openai.Chat, Auto, chat("the first", `,"max_tokens":20`)); err != nil || rc.Tier != Target || rc.Trial.Warmup {
		t.Fatalf("before the warm-up is known to have begun: %s from %s, %v", rc.Acceptance(), rc.Tier, err)
	}
	r.rests(t)
	return r, n
}

// warmth is the only warm-up of a notebook, and how many audits of it were booked.
func (n *notebook) warmth() (w risk.Warmup, booked int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, s := range n.states {
		if k.Lot == lotConfidence {
			w = s.Warmup
		}
	}
	return w, len(n.warmups)
}

func TestEveryDraftThatAWarmupServesIsMarkedAndHasOneAuditOfIt(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"streams":               func(*Config) {},
		"nothing is taken over": func(c *Config) { c.Takeover = false },
		"answers are checked":   func(c *Config) { c.Head, c.Accept.Band = HeadAlways, 1 },
		"without logprobs":      func(c *Config) { c.Unscored = UnscoredAccept },
	} {
		t.Run(what, func(t *testing.T) {
			r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, risk.Grid{0.31, 0.3, 0.2, 0.1, -1})
			change(&r.cfg)
			served, refused, whole := 0, 0, 0
			for i := range 18 {
				was, booked := n.warmth()
				out := &collector{}
				stream := i%3 > 0
				req, err := openai.Scan(openai.Chat, []byte(chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":80,"stream":%v`, stream))), openai.DefaultLimits())
				if err != nil {
					t.Fatal(err)
				}
				var vouched atomic.Int64
				rc, err := r.cascade.Answer(t.Context(), Ask{Request: req, ID: "test", Vouched: func() { vouched.Add(1) }}, out)
				if err != nil {
					t.Fatal(err)
				}
				r.rests(t)
				now, after := n.warmth()
				body := bytes.Join(out.writes, nil)
				marked := strings.HasPrefix(rc.Acceptance(), "accepted;phase=warmup;") && OfWarmup(rc.Acceptance())
				switch rc.Verdict.Lot {
				case accept.LotWarmup:
					served++
					bad := now.Bad - was.Bad
					if after != booked+1 || now.Served != was.Served+1 || !marked || !bytes.Contains(body, []byte(`"acceptance":"accepted","reason":"confident","phase":"warmup"`)) {
						t.Errorf("%s: %d audits, %d served, %s", rc.Acceptance(), after-booked, now.Served-was.Served, body)
					}
					if int64(1-bad) != vouched.Load() || now.Open != 0 {
						t.Errorf("%d bad, vouched for %d times, %d open", bad, vouched.Load(), now.Open)
					}
				case accept.LotWhole:
					whole++
					if marked || now.Served != was.Served || bytes.Contains(body, []byte("warmup")) {
						t.Errorf("the target stands by it: %s, %d served", rc.Acceptance(), now.Served-was.Served)
					}
				default:
					refused++
					if rc.Tier == Draft || after != booked || now.Served != was.Served || marked {
						t.Errorf("%s from %s: %d audits, %d served", rc.Acceptance(), rc.Tier, after-booked, now.Served-was.Served)
					}
				}
			}
			if w, _ := n.warmth(); served < 2 || refused == 0 || w.Served != served || w.Audits != served || w.Drafts < 18 {
				t.Errorf("%d served, %d refused, %d verified: %+v", served, refused, whole, w)
			}
		})
	}
}

func TestAWarmupServesNothingWhereItMustNot(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	for what, change := range map[string]func(*rig, *notebook){
		"the setting is shadow":        func(r *rig, _ *notebook) { r.cfg.Risk.Warmup = false },
		"mode shadow":                  func(r *rig, _ *notebook) { r.cfg.Mode = ModeShadow },
		"its time is over":             func(r *rig, _ *notebook) { r.cfg.Risk.WarmupFor = 0 },
		"nothing is audited":           func(r *rig, _ *notebook) { r.cfg.Risk.AtOnce = 0 },
		"it was wrong":                 func(_ *rig, n *notebook) { n.ends(risk.WarmupWrong) },
		"infeasible, and ε is another": func(_ *rig, n *notebook) { n.ends(risk.WarmupInfeasible) },
		"what was certified is over":   func(_ *rig, n *notebook) { n.ends(risk.WarmupCertified) },
	} {
		t.Run(what, func(t *testing.T) {
			cfg := r.cfg
			defer func() { r.cfg = cfg; n.ends(risk.WarmupRuns) }()
			change(r, n)
			for i := range 3 {
				_, rc, err := r.ask(openai.Chat, Auto, chat(fmt.Sprint(what, i), `,"max_tokens":24`))
				if err != nil || rc.Tier != Target || OfWarmup(rc.Acceptance()) {
					t.Errorf("%s from %s, %v", rc.Acceptance(), rc.Tier, err)
				}
			}
			r.rests(t)
			if w, booked := n.warmth(); booked != 0 || w.Served != 0 {
				t.Errorf("%d audits: %+v", booked, w)
			}
		})
	}
	if _, rc, err := r.ask(openai.Chat, Auto, chat("the last", `,"max_tokens":24`)); err != nil || !OfWarmup(rc.Acceptance()) {
		t.Errorf("where it may: %s, %v", rc.Acceptance(), err)
	}
}

// Without that, a warm-up whose first audits came to nothing would serve nothing more.
func TestAWarmupThatLacksOutcomesGetsThemFromDraftsInTheShadow(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	n.mu.Lock()
	for _, s := range n.states {
		s.Warmup.Served = 50 // of which no audit was booked
	}
	n.mu.Unlock()
	_, rc, err := r.ask(openai.Chat, Auto, chat("while outcomes are lacking", `,"max_tokens":24`))
	if err != nil || rc.Tier != Target || OfWarmup(rc.Acceptance()) {
		t.Fatalf("%s from %s, %v", rc.Acceptance(), rc.Tier, err)
	}
	r.rests(t)
	if w, booked := n.warmth(); booked != 1 || w.Served != 50 || !w.Measured() {
		t.Fatalf("%d audits: %+v", booked, w)
	}
	if _, rc, err := r.ask(openai.Chat, Auto, chat("after an outcome", `,"max_tokens":24`)); err != nil || !OfWarmup(rc.Acceptance()) {
		t.Errorf("%s from %s, %v", rc.Acceptance(), rc.Tier, err)
	}
}

// ends makes the warm-up of every kind be over.
func (n *notebook) ends(why risk.Ending) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.states {
		s.Warmup.Ended = why
	}
}

func TestADraftOfAWarmupWhoseClientLeftIsNotServed(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	left := 0
	for i := range 10 {
		ctx, leave := context.WithCancel(t.Context())
		req, err := openai.Scan(openai.Chat, []byte(chat(fmt.Sprint("later ", i), `,"max_tokens":4000,"ignore_eos":true,"stream":true`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		rc, err := r.cascade.Answer(ctx, Ask{Request: req, ID: "test"}, &collector{onText: leave})
		if err == nil {
			t.Fatalf("%s: answered", rc.Acceptance())
		}
		if leave(); rc.Verdict.Accept && rc.Trial.Warmup {
			left++
		}
	}
	r.rests(t)
	if w, booked := n.warmth(); left == 0 || w.Served != 0 || booked != 0 {
		t.Errorf("%d clients left drafts of the warm-up: %d audits, %+v", left, booked, w)
	}
}

// What pressure serves is nobody's word, in a warm-up as elsewhere: it is not told as one that is certified.
func TestUnderPressureADraftOfAWarmupIsToldAsPressed(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	r.cfg.Risk.Pressed, r.cfg.Risk.PressedAt = true, -20
	r.cascade.short = func(string, string, int8) bool { return true }
	for i := range 8 {
		req, err := openai.Scan(openai.Chat, []byte(chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":24,"stream":%v`, i%2 == 0))), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		rc, err := r.cascade.Answer(t.Context(), Ask{Request: req, ID: "test", Spared: true, Class: 1}, &collector{})
		if err != nil || rc.Tier != Draft || !Pressed(rc.Acceptance()) || OfWarmup(rc.Acceptance()) || rc.Verdict.Lot != accept.LotPressed {
			t.Errorf("%s from %s, lot %s, %v", rc.Acceptance(), rc.Tier, rc.Verdict.Lot, err)
		}
	}
	r.rests(t)
	if w, booked := n.warmth(); w.Served != 0 || booked != 0 {
		t.Errorf("%d audits, %+v", booked, w)
	}
}

func TestAnswersWithAShapeThatAWarmupServesAreAudited(t *testing.T) {
	r, n := warmRig(t, vllmsim.Options{Seed: 7, Divergence: 0.05}, everything)
	served := 0
	for i := range 12 {
		was, booked := n.warmth()
		_, rc, err := r.ask(openai.Chat, Auto, chat(fmt.Sprint("question ", i), `,"max_tokens":60,"response_format":{"type":"json_object"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.rests(t)
		now, after := n.warmth()
		if is := rc.Tier == Draft; is {
			served++
		} else if now.Served != was.Served {
			t.Errorf("%s from %s is served", rc.Acceptance(), rc.Tier)
		}
		if now.Served-was.Served != after-booked {
			t.Errorf("%s: %d served, %d audits", rc.Acceptance(), now.Served-was.Served, after-booked)
		}
	}
	t.Logf("%d of 12 answers with a shape were served", served)
}

func TestTryInAWarmup(t *testing.T) {
	now := time.Unix(1000, 0)
	early := risk.View{Cautious: 1e9, Threshold: 1e9, Floor: -1e9, Band: 1e9, Seen: now, Warmup: risk.Warmup{Began: now.UnixMicro() - 1}}
	known := early
	known.Cautious, known.Version, known.Hi, known.Floor, known.Band = 0.4, 1, 3, 0.4, -2
	with := func(v risk.View, change func(*risk.View)) risk.View { change(&v); return v }
	certified := risk.View{Version: 1, Op: 5, Hi: 8, Threshold: 0.3, Floor: 0, Band: -2, Seen: now}
	drafted := Plan{Tier: Draft, Judged: true, Mode: ModeRisk, Auditor: ScorerIDs}
	for _, tc := range []struct {
		what      string
		plan      Plan
		own       risk.View
		route     risk.View
		change    func(*Config)
		dice      float64
		warmup    bool
		waits     bool // for outcomes
		threshold accept.Nats
		audited   bool
	}{
		{what: "by the prior", own: early, warmup: true, threshold: cautiousScore, audited: true},
		{what: "by the best third", own: known, warmup: true, threshold: 0.4, audited: true},
		{what: "no audit is to be had", own: known, dice: 1, warmup: true, threshold: 0.4},
		{what: "by a calibrated score of which nothing is known", own: early, change: func(c *Config) { c.Risk.Map = 1 }, threshold: 1e9, audited: true},
		{what: "by a calibrated score", own: known, change: func(c *Config) { c.Risk.Map = 1 }, warmup: true, threshold: 0.4, audited: true},
		{what: "the evidence is not known", own: with(known, func(v *risk.View) { v.Seen = time.Time{} }), threshold: 1e9, audited: true},
		{what: "the evidence is too old", own: with(known, func(v *risk.View) { v.Seen = now.Add(-time.Minute - 1) }), threshold: 1e9, audited: true},
		{what: "it is as old as it may be", own: with(known, func(v *risk.View) { v.Seen = now.Add(-time.Minute) }), warmup: true, threshold: 0.4, audited: true},
		{what: "it has not begun", own: with(known, func(v *risk.View) { v.Warmup.Began = 0 }), threshold: 1e9, audited: true},
		{what: "it has not begun, and this is the first request", own: with(known, func(v *risk.View) { v.Warmup.Began, v.New = 0, true }), warmup: true, threshold: 0.4, audited: true},
		{what: "fifty were served, and no audit has an outcome", own: with(known, func(v *risk.View) { v.Warmup.Served = 50 }), warmup: true, waits: true, threshold: 0.4, audited: true},
		{what: "too few audits have an outcome, and the dice say no", own: with(known, func(v *risk.View) { v.Warmup.Served = 50 }), dice: .9, warmup: true, waits: true, threshold: 0.4},
		{what: "as many were served as outcomes allow", own: with(known, func(v *risk.View) { v.Warmup.Served, v.Warmup.Audits = 69, 1 }), warmup: true, threshold: 0.4, audited: true},
		{what: "it has ended", own: with(known, func(v *risk.View) { v.Warmup.Ended = risk.WarmupWrong }), threshold: 1e9, audited: true},
		{what: "infeasible", own: with(known, func(v *risk.View) { v.Infeasible = true }), threshold: 1e9, audited: true},
		{what: "the guard has shut it out", plan: Plan{Tier: Target, Reason: economy.NoSaving, Auditor: ScorerIDs}, own: known, threshold: 1e9, audited: true},
		{what: "the guard has, and the dice say no", plan: Plan{Tier: Target, Reason: economy.NoSaving, Auditor: ScorerIDs}, own: known, dice: .9, threshold: 1e9},
		{what: "the route's threshold is certified", own: known, route: certified, change: func(c *Config) { c.Risk.Inherit = true }, threshold: 0.3, audited: true},
		{what: "certified", own: certified, threshold: 0.3, audited: true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			cfg := testConfig()
			cfg.Mode = ModeRisk
			cfg.Risk = Risk{AtOnce: 4, Warmup: true, WarmupFor: time.Hour, Stale: 24 * time.Hour, Rates: risk.Rates{Serving: .05, ColdShare: .5, ColdPerMinute: 1e9, Explore: .02}}
			if tc.change != nil {
				tc.change(&cfg)
			}
			if tc.plan.Tier == "" {
				tc.plan = drafted
			}
			v := Views{Own: tc.own, Route: tc.route, Now: now}
			p, got, trial := tc.plan.Try(cfg, Kind{}, v, tc.dice)
			if trial.Warmup != tc.warmup || got.Accept.Threshold != tc.threshold || trial.Audited() != tc.audited {
				t.Errorf("%+v by %g: %+v", trial, got.Accept.Threshold, p)
			}
			if tc.waits && trial.Shadow != tc.audited {
				t.Errorf("in the shadow: %v", trial.Shadow)
			}
			if serves := tc.warmup && !tc.waits || tc.own.Serves() || tc.route.Serves(); (p.Tier == Draft) != serves || p.Judged != serves {
				t.Errorf("%+v", p)
			}
			if tc.warmup && trial.Floor(0) > trial.Cautious && tc.audited {
				t.Errorf("what is served is not audited: floor %g", trial.Floor(0))
			}
		})
	}
}

func TestTheFirstTimeOfAKindSparesTheBudgetOnlyWhileTheTargetIsIdle(t *testing.T) {
	now := time.Unix(1000, 0)
	r := Risk{WarmupFor: time.Hour, Rates: risk.Rates{Serving: .05, Boost: 4, ColdShare: .5, ColdPerMinute: 1, Explore: .02}}
	early := Views{Own: risk.View{Version: 1, Hi: 3}, PerMinute: 1000, Now: now}
	usual := r.Rates.Of(early.Own, early.PerMinute)
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
		"ended":            {func(v *Views) { v.Own.Warmup = risk.Warmup{Began: 1, Ended: risk.WarmupWrong} }, 0, true, .5},
		"certified":        {func(v *Views) { v.Own.Op, v.Own.Warmup = 1, risk.Warmup{Began: 1, Ended: risk.WarmupCertified} }, 0, true, .2},
		"all is certified": {func(v *Views) { v.Own.Op, v.Own.Warmup = 3, risk.Warmup{Began: 1, Ended: risk.WarmupCertified} }, 0, false, .05},
		"infeasible": {func(v *Views) {
			v.Own.Infeasible, v.Own.Warmup = true, risk.Warmup{Began: 1, Ended: risk.WarmupInfeasible}
		}, 0, false, .02},
		"certified by an import": {func(v *Views) { v.Own.Op, v.Own.Warmup.Ended = 1, risk.WarmupCertified }, 0, false, .05},
	} {
		v := early
		tc.change(&v)
		v = v.Under(&r, tc.load)
		kind, _ := v.rates(&r, v.Own, false)
		if v.Spare != tc.spare || math.Abs(kind-tc.audits) > 1e-9 {
			t.Errorf("%s: spare %v, %g of the drafts", what, v.Spare, kind)
		}
	}
}

func TestTheObjectOfAnAnswerSaysWarmupOnlyOfOne(t *testing.T) {
	for what, tc := range map[string]struct {
		rc   Receipt
		word bool
	}{
		"served by it":           {Receipt{Trial: &Trial{Warmup: true}, Verdict: accept.Verdict{Accept: true, Reason: "confident", Lot: accept.LotWarmup}}, true},
		"refused by it":          {Receipt{Trial: &Trial{Warmup: true}, Verdict: accept.Verdict{Reason: "low_score"}}, true},
		"verified by the target": {Receipt{Trial: &Trial{Warmup: true}, Verdict: accept.Verdict{Accept: true, Reason: "target_agrees", Lot: accept.LotWhole}}, false},
		"certified":              {Receipt{Trial: &Trial{}, Verdict: accept.Verdict{Accept: true, Reason: "confident", Lot: accept.LotConfidence}}, false},
		"not judged":             {Receipt{Trial: &Trial{Warmup: true}, Plan: Plan{Reason: "draft_full"}}, false},
	} {
		var object struct{ Phase string }
		if err := json.Unmarshal(tc.rc.extra(), &object); err != nil {
			t.Fatal(err)
		}
		if got := object.Phase == "warmup"; got != tc.word || OfWarmup(tc.rc.Acceptance()) != tc.word {
			t.Errorf("%s: %s, %s", what, tc.rc.extra(), tc.rc.Acceptance())
		}
	}
}

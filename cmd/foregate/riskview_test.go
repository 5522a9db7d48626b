package main

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/upstream"
)

// riskConfig is the default of a route of mode risk.
func riskConfig(string) *plan.Config {
	return &plan.Config{Mode: plan.ModeRisk, Risk: plan.Risk{Rule: riskRule, Warmup: true, WarmupFor: time.Hour, AtOnce: 4}}
}

// TestAReplicaTellsWhatAuditsHaveShown asks a gateway whose evidence is in this process.
func TestAReplicaTellsWhatAuditsHaveShown(t *testing.T) {
	a := newAudits(nil)
	a.mixed(t)
	s := &riskSource{book: a.book, config: riskConfig, now: time.Now}
	target, err := pool.New(pool.Options{Name: "p", Model: "m", Backends: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	cascade, err := tiers.New(tiers.Options{Upstream: upstream.New(upstream.Options{}), Routes: []tiers.Route{
		{Model: "chat", Target: target, Config: func() plan.Config { return plan.Config{} }}, {Model: "code", Target: target, Config: func() plan.Config { return plan.Config{} }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Cascade: cascade, Identity: who, Risk: s.views})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop(context.WithoutCancel(t.Context())) })
	admin := "http://" + g.AdminAddr().String()
	t.Setenv("FOREGATE_ADMIN", "")
	t.Setenv("FOREGATE_REDIS", "")
	status, out, errs := call(t, "risk", "show", "--admin", admin)
	golden(t, "testdata/riskadmin.txt", soon.ReplaceAllString(out, "in SOON ($2)"))
	if status != 0 || errs != "" {
		t.Errorf("status %d: %s", status, errs)
	}
	embedded := configFile(t, `listen: 127.0.0.1:0
admin: `+g.AdminAddr().String()+`
redis: {url: embedded}
pools: {p: {model: m, backends: ["http://h:1"]}}
routes: [{model: chat, target: p}, {model: code, target: p}]
`)
	status, through, errs := call(t, "risk", "show", "-c", embedded)
	if status != 0 || soon.ReplaceAllString(through, "") != soon.ReplaceAllString(out, "") {
		t.Errorf("status %d: %s%s", status, through, errs)
	}
	status, out, _ = call(t, "risk", "show", "--admin", admin, "--route", "code", "--json")
	if status != 0 || strings.Count(out, `"route"`) != 1 || !strings.Contains(out, `"state": "infeasible"`) || !strings.Contains(out, `"audits_to_certify": null`) {
		t.Errorf("status %d: %s", status, out)
	}
	if status, _, errs := call(t, "risk", "show", "--admin", admin, "--route", "nobody"); status != 1 || !strings.Contains(errs, "status 404") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestThePaceIsThatOfAuditsThatCount has one a minute, of which every second one scores too low for
// the next threshold.
func TestThePaceIsThatOfAuditsThatCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudits(nil)
		k := riskKey("chat", "to_1k", "conf")
		a.learn(t, k, risk.GridScores)
		s := &riskSource{book: a.book, config: riskConfig, now: time.Now}
		for i := range 30 {
			v := a.book.View(k)
			if fate := a.open(t, k, []float64{1, v.Floor}[i%2]); fate != risk.Booked {
				t.Fatalf("audit %d was %s", i, fate)
			}
			time.Sleep(time.Minute)
		}
		views, err := s.views(t.Context())
		if err != nil || len(views) != 1 || views[0].AuditsPerMinute == nil || views[0].SecondsToCertify == nil {
			t.Fatalf("%v: %+v", err, views)
		}
		v := views[0]
		if *v.AuditsPerMinute != .5 || math.Abs(*v.SecondsToCertify-60**v.AuditsToCertify/.5) > 1e-9 || v.State != gateway.RiskUncertified || v.Pending != 15 {
			t.Errorf("%g a minute, %g s: %+v", *v.AuditsPerMinute, *v.SecondsToCertify, v)
		}
		time.Sleep(2 * time.Hour)
		if views, err = s.views(t.Context()); err != nil || views[0].AuditsPerMinute != nil || views[0].SecondsToCertify != nil {
			t.Errorf("after two hours without one: %v, %+v", err, views[0])
		}
	})
}

func TestMetricsHaveStatesOfTenSecondsAgoAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newAudits(nil)
		s := &riskSource{book: a.book, config: riskConfig, now: time.Now}
		if len(s.states()) != 0 {
			t.Error("something is known before it was read")
		}
		go func() { _ = s.Run(ctx) }()
		synctest.Wait()
		a.learn(t, riskKey("chat", "to_1k", "conf"), 10)
		if len(s.states()) != 0 {
			t.Error("a scrape asked for what is new")
		}
		time.Sleep(statesEvery)
		synctest.Wait()
		if known := s.states(); len(known) != 1 || len(known[0].State.Scores) != 10 {
			t.Errorf("got %+v", known)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAPromiseFitsOneLineOfTheStatus(t *testing.T) {
	a := newAudits(nil)
	a.mixed(t)
	known, err := a.book.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &riskSource{config: riskConfig, now: time.Now}
	s.last.Store(&known)
	var got []string
	for _, p := range s.promises() {
		got = append(got, p.Route+": "+promiseText(p))
	}
	want := []string{
		"chat: at most 10% refused, with probability 95%: 1 of 4 kinds certified",
		"code: at most 10% refused, with probability 95%: 0 of 1 kind certified, 1 infeasible",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package riskview

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/tiers/evidence/evidencetest"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// onlyView is the view of the only kind.
func onlyView(t *testing.T, s *Watcher) *gateway.RiskView {
	t.Helper()
	views, err := s.Views(t.Context())
	if err != nil || len(views) != 1 {
		t.Fatalf("%v: %+v", err, views)
	}
	return &views[0]
}

// configured is a watcher whose routes have a configuration.
func configured(a *evidencetest.Audits, c *plan.Config) *Watcher {
	return &Watcher{book: a.Book, config: func(string) *plan.Config { return c }, now: time.Now}
}

func TestAWarmUpSaysWhatItServedAndHowLongTheRestTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		k := evidencetest.Key("chat", "to_1k")
		s := configured(a, riskConfig(""))
		a.Drafted(k, 1, 0)
		time.Sleep(30 * time.Second) // 4 a second
		a.Drafted(k, 119, 40)
		a.Learn(t, k, 120)
		a.Warm(t, k, 38, 2)
		v := onlyView(t, s)
		if v.State != gateway.RiskWarmup {
			t.Error(v.State)
		}
		if wait := 60 * (80./240 + *v.AuditsToCertify/48); v.SecondsToCertify == nil || math.Abs(*v.SecondsToCertify-wait) > 1e-6 {
			t.Errorf("got %v s, want %g", v.SecondsToCertify, wait)
		}
		if w := v.Warmup; w == nil || !w.Serves || w.Drafts != 120 || w.Served != 40 || w.Audits != 38 || w.Bad != 2 || w.SecondsLeft != 3570 || *w.DraftsPerMinute != 240 || v.ScoresLearned != 120 {
			t.Errorf("got %+v of %+v", w, v)
		}
	})
}

func TestWithoutTrafficAWarmUpTellsCountsAlone(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	a.Drafted(k, 1, 1)
	if v := onlyView(t, configured(a, riskConfig(""))); v.SecondsToCertify != nil || v.ScoresWanted != 200 || v.AuditsToCertify == nil {
		t.Errorf("got %+v", v)
	}
}

func TestAWarmUpThatLacksOutcomesSaysThatNothingIsServed(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	s := configured(a, riskConfig(""))
	a.Drafted(k, 120, 50)
	if v := onlyView(t, s); v.Warmup.Serves {
		t.Errorf("%+v", v.Warmup)
	}
	a.Warm(t, k, 1, 0)
	if v := onlyView(t, s); !v.Warmup.Serves {
		t.Errorf("%+v", v.Warmup)
	}
}

func TestAWarmUpInShadowSaysThatNothingIsServed(t *testing.T) {
	for name, change := range map[string]func(c *plan.Config, k *risk.Key){
		"the setting":    func(c *plan.Config, _ *risk.Key) { c.Risk.Warmup = false },
		"the mode":       func(c *plan.Config, _ *risk.Key) { c.Mode = plan.ModeShadow },
		"a fitted score": func(_ *plan.Config, k *risk.Key) { *k = plan.ScoredBy(*k, 3) },
	} {
		a, k := evidencetest.New(nil), evidencetest.Key("chat", "to_1k")
		c := *riskConfig("")
		change(&c, &k)
		a.Drafted(k, 20, 0)
		if v := onlyView(t, configured(a, &c)); v.State != gateway.RiskWarmup || v.Warmup.Serves {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestAWarmUpThatWasStoppedSaysWhy(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	a.Drafted(k, 60, 20)
	a.Warm(t, k, 20, 12)
	v := onlyView(t, configured(a, riskConfig("")))
	if v.State != gateway.RiskStopped || v.Warmup.Ended != "wrong" || v.Warmup.Serves || v.Warmup.Bad != 12 {
		t.Errorf("%+v of %+v", v.Warmup, v)
	}
}

func TestAWarmUpThatIsOverByTimeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		k := evidencetest.Key("chat", "to_1k")
		a.Drafted(k, 60, 20)
		a.Learn(t, k, 60)
		time.Sleep(time.Hour)
		v := onlyView(t, configured(a, riskConfig("")))
		if v.State != gateway.RiskLearning || v.Warmup.Ended != "time" || v.Warmup.SecondsLeft != 0 || v.SecondsToCertify != nil {
			t.Errorf("%+v of %+v", v.Warmup, v)
		}
	})
}

// TestTheMainKindOfARouteIsInUse has a kind of a former model with more audits.
func TestTheMainKindOfARouteIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := evidencetest.New(nil)
		former := risk.Key{Route: "chat", TrafficClass: "to_1k.ffffffff"}
		a.Learn(t, former, risk.GridScores)
		a.Audit(t, former, 40, 2)
		time.Sleep(time.Hour)
		short := evidencetest.Key("chat", "to_1k")
		a.Drafted(short, 30, 10)
		a.Drafted(evidencetest.Key("chat", "to_4k"), 20, 20)
		a.Learn(t, evidencetest.Key("other", "to_1k"), 3)
		known, err := a.Book.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := configured(a, riskConfig(""))
		s.last.Store(&known)
		got := s.Guarantees()
		if len(got) != 2 || got[0].Main == nil || got[0].Main.TrafficClass != short.TrafficClass || got[0].Main.State != gateway.RiskWarmup || got[0].Infeasible != 1 || got[1].Main == nil {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAChangeOfPhaseIsALineAndNothingElse(t *testing.T) {
	view := func(bucket string, state gateway.RiskState) gateway.RiskView {
		return gateway.RiskView{Route: "chat", TrafficClass: bucket, State: state}
	}
	const w, d, i, l, u = gateway.RiskWarmup, gateway.RiskCertified, gateway.RiskInfeasible, gateway.RiskLearning, gateway.RiskUncertified
	for _, tc := range []struct {
		was, is gateway.RiskState
		want    string // "" is no line
	}{
		{"", w, "info warmup"}, {"", l, ""}, {l, u, ""}, {u, l, ""}, {w, w, ""}, {i, i, ""},
		{w, d, "info certified"}, {w, i, "warn infeasible"}, {w, gateway.RiskStopped, "warn stopped"},
		{w, u, "info uncertified"}, {u, d, "info certified"}, {gateway.RiskStopped, i, "warn infeasible"},
		{d, u, "warn uncertified"}, {i, d, "info certified"},
	} {
		was := []gateway.RiskView{view("same", d)}
		if tc.was != "" {
			was = append(was, view("b", tc.was))
		}
		changes := phaseChanges(was, []gateway.RiskView{view("b", tc.is), view("same", d)})
		got := ""
		for _, c := range changes {
			got += map[bool]string{true: "warn ", false: "info "}[c.bad()] + string(c.view.State)
			if c.was != tc.was || c.view.TrafficClass != "b" {
				t.Errorf("got %+v", c)
			}
		}
		if got != tc.want {
			t.Errorf("%s → %s: got %q, want %q", tc.was, tc.is, got, tc.want)
		}
	}
	if lines := phaseChanges([]gateway.RiskView{view("gone", d)}, nil); len(lines) != 0 {
		t.Errorf("got %+v", lines)
	}
}

// TestTheLogTellsPhasesWhenTheyChange follows one kind from its first draft until it is found infeasible.
func TestTheLogTellsPhasesWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := evidencetest.New(nil), &strings.Builder{}
		s := configured(a, riskConfig(""))
		s.log = zerolog.New(log)
		k := evidencetest.Key("chat", "to_1k")
		written := func(want ...string) {
			t.Helper()
			time.Sleep(readInterval)
			synctest.Wait()
			got := strings.Split(strings.TrimSpace(log.String()), "\n")
			if log.Len() == 0 {
				got = nil
			}
			log.Reset()
			if len(got) != len(want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			for i := range want {
				if !strings.Contains(got[i], want[i]) {
					t.Errorf("got %s, want %s", got[i], want[i])
				}
			}
		}
		go func() { _ = s.Run(t.Context()) }()
		written()
		a.Drafted(k, 9, 3)
		a.Learn(t, k, risk.GridScores)
		written(`{"level":"info","route":"chat","traffic_class":"to_1k.0a1b2c3d","was":"","phase":"warmup","audits":0,`)
		written()
		a.Audit(t, k, 300, 3)
		written(`{"level":"warn","route":"chat","traffic_class":"to_1k.0a1b2c3d","was":"warmup","phase":"infeasible",`)
		written()
		a.Audit(t, risk.Key{Route: "chat", TrafficClass: "to_1k.ffffffff"}, 0, 0)
		written()
	})
}

// riskConfig is the default of a route of mode risk.
func riskConfig(string) *plan.Config {
	return &plan.Config{Mode: plan.ModeRisk, Risk: plan.Risk{Rule: evidencetest.Rule, Warmup: true, WarmupDuration: time.Hour, MaxConcurrentAudits: 4}}
}

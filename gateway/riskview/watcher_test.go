package riskview

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
		want := "warm-up: 40 of 120 drafts served, 2 of 38 audited were wrong (5.26%, 0% … 23.37%); " +
			"certified in 1m 36s at the earliest, at 4 requests/s (80 scores, 61 audits to go); the warm-up ends in 59m 30s at the latest"
		if v.State != gateway.RiskWarmup || v.Summary != want {
			t.Errorf("%s: -want +got:\n%s", v.State, cmp.Diff(want, v.Summary))
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
	if v := onlyView(t, configured(a, riskConfig(""))); v.SecondsToCertify != nil || !strings.Contains(v.Summary, "; certified after 200 scores, 61 audits or more; ") {
		t.Errorf("got %q", v.Summary)
	}
}

func TestAWarmUpThatLacksOutcomesSaysThatNothingIsServed(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	s := configured(a, riskConfig(""))
	a.Drafted(k, 120, 50)
	if v := onlyView(t, s); v.Warmup.Serves || !strings.HasPrefix(v.Summary, "warm-up: 50 of 120 drafts served, none audited yet, none is served now; ") {
		t.Errorf("%+v: %s", v.Warmup, v.Summary)
	}
	a.Warm(t, k, 1, 0)
	if v := onlyView(t, s); !v.Warmup.Serves || !strings.HasPrefix(v.Summary, "warm-up: 50 of 120 drafts served, 0 of 1 audited were wrong ") {
		t.Errorf("%+v: %s", v.Warmup, v.Summary)
	}
}

func TestAWarmUpInShadowSaysThatNothingIsServed(t *testing.T) {
	for name, change := range map[string]func(c *plan.Config){
		"the setting":        func(c *plan.Config) { c.Risk.Warmup = false },
		"the mode":           func(c *plan.Config) { c.Mode = plan.ModeShadow },
		"a calibrated score": func(c *plan.Config) { c.Risk.ScoreVersion = 3 },
	} {
		a := evidencetest.New(nil)
		a.Drafted(evidencetest.Key("chat", "to_1k"), 20, 0)
		c := *riskConfig("")
		change(&c)
		if v := onlyView(t, configured(a, &c)); v.State != gateway.RiskWarmup || v.Warmup.Serves || !strings.HasPrefix(v.Summary, "warm-up in shadow: 20 drafts made, none is served now; ") {
			t.Errorf("%s: %s, %q", name, v.State, v.Summary)
		}
	}
}

func TestAWarmUpThatWasStoppedSaysWhy(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	a.Drafted(k, 60, 20)
	a.Warm(t, k, 20, 12)
	v := onlyView(t, configured(a, riskConfig("")))
	if v.State != gateway.RiskStopped || v.Warmup.Ended != "wrong" || v.Warmup.Serves ||
		!strings.HasPrefix(v.Summary, "warm-up stopped: of the drafts that it served 12 of 20 audited were wrong (60%, ") ||
		!strings.Contains(v.Summary, "too many for the guarantee; nothing is served unverified, audits go on; certified after 200 scores, 61 audits or more") {
		t.Errorf("%s: %q", v.State, v.Summary)
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
		want := "the warm-up is over by risk.warmup_duration, 20 of 60 drafts served and none audited yet; nothing is served unverified, audits go on; certified after 140 scores, 61 audits or more"
		if v.State != gateway.RiskLearning || v.Warmup.Ended != "time" || v.Warmup.SecondsLeft != 0 || v.SecondsToCertify != nil || v.Summary != want {
			t.Errorf("%s: -want +got:\n%s", v.State, cmp.Diff(want, v.Summary))
		}
	})
}

func TestWhatIsInfeasibleSaysWhatToDo(t *testing.T) {
	a := evidencetest.New(nil)
	k := evidencetest.Key("chat", "to_1k")
	a.Learn(t, k, risk.GridScores)
	a.Audit(t, k, 400, 4)
	v := onlyView(t, configured(a, riskConfig("")))
	if v.State != gateway.RiskInfeasible || v.Advice == nil || v.Advice.FeasibleMaxWrongRate == nil || *v.Advice.FeasibleMaxWrongRate <= v.MaxWrongRate || v.Advice.Audits <= v.Audits ||
		!strings.HasPrefix(v.Summary, "infeasible at eps 0.1: of the best 20% of drafts the target refuses about ") {
		t.Errorf("%s: %q, %+v", v.State, v.Summary, v.Advice)
	}
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
		return gateway.RiskView{Route: "chat", TrafficClass: bucket, State: state, Summary: "it is " + string(state)}
	}
	const w, c, i, l, u = gateway.RiskWarmup, gateway.RiskCertified, gateway.RiskInfeasible, gateway.RiskLearning, gateway.RiskUncertified
	for _, tc := range []struct {
		was, is gateway.RiskState
		want    string // "" is no line
	}{
		{"", w, "info it is warmup"}, {"", l, ""}, {l, u, ""}, {u, l, ""}, {w, w, ""}, {i, i, ""},
		{w, c, "info it is certified"}, {w, i, "warn it is infeasible"}, {w, gateway.RiskStopped, "warn it is stopped"},
		{w, u, "info it is uncertified"}, {u, c, "info it is certified"}, {gateway.RiskStopped, i, "warn it is infeasible"},
		{c, u, "warn the certificate is lost: it is uncertified"}, {i, c, "info it is certified"},
	} {
		was := []gateway.RiskView{view("same", c)}
		if tc.was != "" {
			was = append(was, view("b", tc.was))
		}
		lines := phaseChanges(was, []gateway.RiskView{view("b", tc.is), view("same", c)})
		got := ""
		for _, line := range lines {
			got += map[bool]string{true: "warn ", false: "info "}[line.warn] + line.text
			if line.was != tc.was || line.phase != tc.is || line.trafficClass != "b" {
				t.Errorf("got %+v", line)
			}
		}
		if got != tc.want {
			t.Errorf("%s → %s: got %q, want %q", tc.was, tc.is, got, tc.want)
		}
	}
	if lines := phaseChanges([]gateway.RiskView{view("gone", c)}, nil); len(lines) != 0 {
		t.Errorf("got %+v", lines)
	}
}

// TestTheLogTellsPhasesAtTheStartAndWhenTheyChange follows one kind from its first draft until it is found infeasible.
func TestTheLogTellsPhasesAtTheStartAndWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := evidencetest.New(nil), &strings.Builder{}
		s := configured(a, riskConfig(""))
		s.routes, s.log = func() []string { return []string{"chat", "off"} }, zerolog.New(log)
		on := s.config
		s.config = func(route string) *plan.Config {
			if route == "off" {
				return &plan.Config{Mode: plan.ModeOff}
			}
			return on(route)
		}
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
		written(`{"level":"info","route":"chat","phase":"warmup","message":"no request was drafted yet; the warm-up begins with the first and lasts 1h 0m at most`)
		a.Drafted(k, 9, 3)
		a.Learn(t, k, risk.GridScores)
		written(`{"level":"info","route":"chat","traffic_class":"to_1k.0a1b2c3d","phase":"warmup","message":"warm-up: 3 of 9 drafts served, none audited yet; `)
		written()
		a.Audit(t, k, 300, 3)
		written(`{"level":"warn","route":"chat","traffic_class":"to_1k.0a1b2c3d","was":"warmup","phase":"infeasible","message":"infeasible at eps 0.1: of the best 20% of drafts`)
		written()
		a.Audit(t, risk.Key{Route: "chat", TrafficClass: "to_1k.ffffffff"}, 0, 0)
		written()
	})
}

func TestAtTheStartARouteWithoutRequestsSaysWhatTheFirstGets(t *testing.T) {
	shadow, unproven := *riskConfig(""), *riskConfig("")
	shadow.Mode, unproven.Risk.Warmup = plan.ModeShadow, false
	for want, c := range map[string]*plan.Config{
		"no request was drafted yet; mode shadow: drafts are made and audited, and none is served":              &shadow,
		"no request was drafted yet; risk.warmup is shadow: no draft is served before a threshold is certified": &unproven,
	} {
		if got := phaseAtStart("chat", c, nil); got.text != want || got.warn {
			t.Errorf("got %+v", got)
		}
	}
	main := gateway.RiskView{Route: "chat", TrafficClass: "b", State: gateway.RiskInfeasible, Summary: "so it is"}
	if got := phaseAtStart("chat", &shadow, &main); got.text != "so it is" || !got.warn || got.phase != gateway.RiskInfeasible {
		t.Errorf("got %+v", got)
	}
}

// riskConfig is the default of a route of mode risk.
func riskConfig(string) *plan.Config {
	return &plan.Config{Mode: plan.ModeRisk, Risk: plan.Risk{Rule: evidencetest.Rule, Warmup: true, WarmupDuration: time.Hour, MaxConcurrentAudits: 4}}
}

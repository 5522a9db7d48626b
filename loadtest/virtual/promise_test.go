package virtual

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest"
)

// promised is a quarter of an hour of a route that promises something; MODE, MORE and FAULT vary.
const promised = `
about: x
duration: 15m
warmup: 30s
deadline: 2m
audits: 600
replicas: 3
arrivals: {poisson: 10}
prompts: [{name: chat, question: 60, output: {p50: 40, p95: 80, max: 200}}]
draft: {profile: a10g-8b, count: 2, usd_per_hour: 1, divergence: 0.25}
target: {profile: h100-70b-fp8-tp2, count: 2, usd_per_hour: 13.76, restart: 10s}
settings: {cache.mode: "off", risk.max_disagreement: "0.2", risk.audit_rate: "0.2", risk.audit_budget: "0", risk.cold_start_audits_per_minute: "200", speculation.mode: MODE, MORE}
faults: [{at: 10m, pool: draft, backend: all, drift: {divergence: 0.7}}FAULT]
`

// withUsual fills in what a test does not say.
func withUsual(text string) string {
	return replace(text, "MODE", "risk", "MORE", `economy.explore_rate: "0.02"`, "FAULT", "")
}

// usual is the row of promised with nothing changed, which several tests look at.
var usual = sync.OnceValues(func() (loadtest.Row, error) {
	s, err := loadtest.Parse("test.yaml", []byte(withUsual(promised)))
	if err != nil {
		return loadtest.Row{}, err
	}
	r, err := Run(context.Background(), s, &s.Cases[0], 1)
	if err != nil {
		return loadtest.Row{}, err
	}
	return r.Row(), nil
})

// promise runs promised with some of its words replaced.
func promise(t *testing.T, pairs ...string) loadtest.Row {
	t.Helper()
	if len(pairs) > 0 {
		return row(t, scenario(t, withUsual(replace(promised, pairs...))), 1)
	}
	r, err := usual()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestThresholdsAreCertifiedAndADriftIsNoticed(t *testing.T) {
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	r := promise(t)
	if r.FirstCertificate == 0 || r.FirstCertificate > 600 || r.Served == 0 || r.Alarms == 0 || r.AboveBefore > 0 {
		t.Errorf("first certificate after %v s, %v served, %d alarms, above ε for %v of the time before the drift",
			r.FirstCertificate, r.Served, r.Alarms, r.AboveBefore)
	}
	if r.Bound > 1 || r.AuditsOfTarget == 0 || r.AuditsOfDraft == 0 || r.PricedPerMTok == 0 {
		t.Errorf("bound %v, audits are %v and %v of what target and draft cost, %v $", r.Bound, r.AuditsOfTarget, r.AuditsOfDraft, r.PricedPerMTok)
	}
	if r.BaseAfter < 1.5*r.BaseBefore || r.AUROCBefore < 0.6 || r.BestBefore < r.BestAfter {
		t.Errorf("wrong drafts %v and %v, AUROC %v, best acceptance %v and %v", r.BaseBefore, r.BaseAfter, r.AUROCBefore, r.BestBefore, r.BestAfter)
	}
}

func TestAuditsThatAreLostStayBad(t *testing.T) {
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	kept := promise(t)
	r := promise(t, "FAULT", ", {at: 2m, for: 4m, pool: target, backend: all, die: true}")
	if r.AuditsLost == 0 || kept.AuditsLost > r.AuditsLost/2 {
		t.Errorf("%d audits lost at targets that are away, and %d without", r.AuditsLost, kept.AuditsLost)
	}
	if r.FirstCertificate > 0 && r.FirstCertificate < kept.FirstCertificate {
		t.Errorf("a certificate comes after %v s where audits are lost, and after %v where none is", r.FirstCertificate, kept.FirstCertificate)
	}
}

func TestAnOracleKeepsToWhatItKnows(t *testing.T) {
	if slow {
		t.Skip("one goroutine: the race detector has nothing to see")
	}
	text := replace(promised, "MODE", "confidence", "MORE", `economy.guard: "off"`, "FAULT", "")
	r := row(t, scenario(t, text+"compare: [{name: known, oracle: 0.1}]\n"), 1)
	if r.AboveBefore+r.AboveAfter > 0 || r.DisagreementBefore > 0.12 || r.DisagreementAfter > 0.13 || r.Served == 0 {
		t.Errorf("above ε %v and %v of the time; %v and %v of the drafts wrong that it serves, %v of the answers",
			r.AboveBefore, r.AboveAfter, r.DisagreementBefore, r.DisagreementAfter, r.Served)
	}
}

func TestOfDriftsUnderWayAtOnceTheLaterOneCounts(t *testing.T) {
	s := &loadtest.Scenario{Duration: 10 * time.Minute, Faults: []loadtest.Fault{
		{At: time.Minute, For: 3 * time.Minute, Drift: &loadtest.Drift{Divergence: .5}},
		{At: 2 * time.Minute, Drift: &loadtest.Drift{Divergence: .7, Blind: .1}},
		{At: 3 * time.Minute, For: time.Hour, Die: true},
	}}
	got := erasOf(s, &loadtest.Pool{Divergence: .2, Blind: .3})
	want := []era{
		{0, loadtest.Drift{Divergence: .2, Blind: .3}}, {time.Minute, loadtest.Drift{Divergence: .5}},
		{2 * time.Minute, loadtest.Drift{Divergence: .7, Blind: .1}}, {4 * time.Minute, loadtest.Drift{Divergence: .7, Blind: .1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(era{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheLoosestThresholdIsThatBeforeTheRiskGrowsForGood(t *testing.T) {
	c := &draftSample{kinds: map[string][][]graded{"a": {
		{{score: .9, good: false}, {score: .8, good: true}, {score: .7, good: true}, {score: .6, good: true}, {score: .6, good: false}, {score: .5, good: true}, {score: .4, good: false}}, // the first is wrong
		{{score: .9, good: false}},
	}}, share: map[string]float64{"a": 1}}
	for _, tc := range []struct {
		eps, threshold, accepts float64
		era                     int
	}{
		{.1, math.Inf(1), 0, 0}, {.34, .5, 6. / 7, 0}, {.3, math.Inf(1), 0, 0}, {.5, .4, 1, 0}, {.5, math.Inf(1), 0, 1},
	} {
		threshold, accepts := c.loosest("a", tc.era, tc.eps)
		if threshold != tc.threshold || accepts != tc.accepts {
			t.Errorf("ε %v, era %d: %v accepts %v, want %v, %v", tc.eps, tc.era, threshold, accepts, tc.threshold, tc.accepts)
		}
	}
	if r := c.risk("a", 0, .6); r != .4 || c.accepts("a", 0, .6) != 5./7 || c.risk("a", 0, 1) != 0 {
		t.Errorf("risk %v of %v", r, c.accepts("a", 0, .6))
	}
	if wrong, auroc := c.base(0); wrong != 3./7 || math.Abs(auroc-7./12) > 1e-9 { // of the tie the first is better
		t.Errorf("%v wrong, AUROC %v", wrong, auroc)
	}
}

// standing is a run in which two in five conversations say what an earlier one said; CACHE and TURNS vary.
const standing = `
about: x
duration: 5m
audits: 500
arrivals: {poisson: 4}
prompts: [{name: chat, question: 60, turns: TURNS, catalogue: {share: 0.4, size: 5, zipf: 1}, output: 20}]
tenants: [{id: a}, {id: b}]
draft: {profile: a10g-8b, divergence: 0.25}
target: {profile: h100-70b-fp8-tp2}
settings: {cache.mode: CACHE, speculation.mode: confidence}
compare: [{name: known, oracle: 0.1}]
`

func TestADraftThatTheCacheSparesIsNoneOfTheSample(t *testing.T) {
	sampled := func(pairs ...string) (conversations, requests int) {
		t.Helper()
		s := scenario(t, replace(standing, pairs...))
		l, err := newLab(s, &s.Cases[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range l.sample.kinds {
			requests += len(list[0])
		}
		return len(l.freshConversations()), requests
	}
	all, _ := sampled("CACHE", `"off"`, "TURNS", "1")
	fresh, _ := sampled("CACHE", `"on"`, "TURNS", "1")
	if share := float64(all-fresh) / float64(all); share < 0.33 || share > 0.45 {
		t.Errorf("%d of %d conversations are drafted with the cache, want about 60 %% and ten", fresh, all)
	}
	if _, requests := sampled("CACHE", `"off"`, "TURNS", "3"); requests != 3*500 {
		t.Errorf("%d drafts of 500 conversations of three turns", requests)
	}
}

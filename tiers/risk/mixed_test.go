package risk

import (
	"math"
	"slices"
	"testing"
	"time"
)

// limitOf is the limit of a class with a good application, a bad one and one between, by so many audits of each that no
// threshold is certified, seen by a replica whose requests are of all alike.
func limitOf(audits int) Limit {
	s := strataOf([]string{"bad", "good"})
	for a, bad := range []int{audits * 7 / 10, 0, audits / 10} { // the last is of the rest
		for i := range audits {
			b := OpenAudit{First: 1, Hi: gridSize, Weight: 1}
			s.Counts[a].open(&b)
			s.Counts[a].close(&b, i < bad)
		}
	}
	k := &KeyState{State: State{Grid: Grid{1}, Epochs: []Epoch{{Turn: 1, Strata: s}}}, Rule: Rule{MaxDisagreement: .1, ErrorProbability: .05}}
	var seen Sketch
	for range 30 {
		for _, name := range []string{"bad", "good", "other"} {
			seen.Add(name)
		}
	}
	return k.Limit(&seen)
}

func TestWhileNothingIsCertifiedTheAuditsOfARefutedApplicationComeToTheOthers(t *testing.T) {
	l, v := limitOf(20), View{Version: 1, Mixed: true}
	bad, good := l.Of(v, "bad"), l.Of(v, "good")
	if !bad.Refuted || good.Refuted || math.Abs(good.Spread-1.5) > 1e-9 || good.Serves() {
		t.Fatalf("the bad one %+v, the good one %+v", bad, good)
	}
	r := Rates{Audit: .05, ColdStart: .5, ColdStartPerMinute: 1e9, Explore: .02}
	if b, g := r.AuditRate(bad, 60), r.AuditRate(good, 60); b != .02 || math.Abs(g-.75) > 1e-9 {
		t.Errorf("audited are %g and %g", b, g)
	}
	// A certificate of the class that allows nothing of this mix changes nothing.
	v.Op = 1
	if bad, good := l.Of(v, "bad"), l.Of(v, "good"); !bad.Refuted || good.Refuted || bad.Serves() || bad.Withheld || r.AuditRate(bad, 60) != .02 {
		t.Errorf("with a certificate for another mix: the bad one %+v, the good one %+v", bad, good)
	}
}

func TestAServedApplicationIsAuditedMoreWhileALooserThresholdMayBeProven(t *testing.T) {
	few := Counts{}
	for i := range 60 { // of .12 bad, and a bound of .2
		b := OpenAudit{First: 3, Hi: 4, Weight: 1}
		few.open(&b)
		few.close(&b, i%8 == 0)
	}
	if !few.isProvable(2, .2, 7) || few.isProvable(4, .2, 7) {
		t.Error("index 3 may be proven, and no index above 4 has an audit")
	}
	r := Rates{Audit: .05, Boost: 4}
	if more, usual := r.AuditRate(View{Op: 2, Provable: true}, 60), r.AuditRate(View{Op: 2}, 60); more != .2 || usual != .05 {
		t.Errorf("audited are %g, and else %g", more, usual)
	}
}

// An import that counted its audits alike took an application for frequent that is only audited more often.
func TestPastAuditsStandForAsManyDraftsAsTheirChanceSays(t *testing.T) {
	drawn := func(of string, chance float64, n int) []LogEntry {
		a := LogEntry{Audit: Audit{Decision: Decision{Floor: -Unreachable, Chance: chance}, Application: of}, Label: Good, When: time.Unix(1, 0)}
		return slices.Repeat([]LogEntry{a}, n)
	}
	past := append(drawn("often", .5, 500), drawn("seldom", .1, 100)...)
	p := PlanImport(plain, Grid{-1}, past)
	if mix := p.Strata.mix(); len(mix) != 3 || math.Abs(mix[0]-mix[1]) > 1e-6 {
		t.Errorf("the mix of two applications that come alike is %v", mix)
	}
	var entries []*LogEntry
	for i := range past {
		entries = append(entries, &past[i])
	}
	if s := TrafficOf(entries); math.Abs(float64(s.Counts["often"]-s.Counts["seldom"])) > 1 || s.Total < 1999 {
		t.Errorf("the traffic is %+v", s)
	}
}

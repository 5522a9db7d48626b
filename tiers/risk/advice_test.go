package risk

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// bads makes audits of the strictest threshold until nothing can be certified, then so many more; wrong is the share that is bad.
func bads(r Rule, wrong float64, more int) *State {
	s, random := taught(r), rand.New(rand.NewPCG(7, 8))
	for i := 0; !s.Infeasible && i < 5000; i++ {
		audit(s, r, 1, random.Float64() < wrong)
	}
	for range more {
		audit(s, r, 1, random.Float64() < wrong)
	}
	return s
}

func TestWhereAllIsFeasibleThereIsNoAdvice(t *testing.T) {
	s := taught(plain)
	for range 50 {
		audit(s, plain, 1, false)
	}
	if got := s.Advise(plain); got != (Advice{}) || got.String() != "" {
		t.Errorf("got %+v", got)
	}
	infeasible := bads(plain, .4, 0)
	other := plain
	other.MaxWrongRate = .3
	if got := infeasible.Advise(other); got != (Advice{}) {
		t.Errorf("nothing was found of that promise yet: %+v", got)
	}
}

func TestAdviceIsThereAlthoughTheEvidenceBeganAnew(t *testing.T) {
	s := bads(plain, .4, 0)
	if n, _ := s.Epochs[0].Closed(1); n != 0 {
		t.Fatalf("%d audits are left after the finding", n)
	}
	a := s.Advise(plain)
	if a.Audits != s.Finding.Audits || a.Bad != s.Finding.Bad || a.Audits < minOutcomes || a.Estimate <= plain.MaxWrongRate {
		t.Errorf("got %+v of %+v", a, s.Finding)
	}
	if text := a.String(); !strings.HasPrefix(text, "infeasible at eps 0.05: of the best 20% of drafts the target refuses about ") ||
		!strings.Contains(text, "so few audits say little yet") || strings.Contains(text, "\n") {
		t.Errorf("got %q", text)
	}
}

func TestTheSmallestFeasibleEpsIsCloseToTheTruth(t *testing.T) {
	r := Rule{MaxWrongRate: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}
	for _, wrong := range []float64{.2, .3, .4} {
		a := bads(r, wrong, 600).Advise(r)
		if a.Audits < 600 || a.Low > wrong || a.High < wrong {
			t.Errorf("%.2f is not within %+v", wrong, a)
		}
		if a.Smallest <= a.Estimate || a.Smallest-wrong > .1 || a.SmallestLow > a.Smallest || a.SmallestHigh != 0 && a.SmallestHigh < a.Smallest {
			t.Errorf("of a share of %.2f: %+v", wrong, a)
		}
		if need := RequiredAudits(a.Estimate, a.Smallest, r.ErrorProbability/(2*gridSize)); need > float64(r.LeaseAudits)/2 {
			t.Errorf("%g takes %.0f audits", a.Smallest, need)
		}
		if less := a.Smallest - .01; RequiredAudits(a.Estimate, less, r.ErrorProbability/(2*gridSize)) <= float64(r.LeaseAudits)/2 {
			t.Errorf("%g would do, too", less)
		}
	}
}

func TestOfDraftsThatAreMostlyWrongNoEpsIsAdvised(t *testing.T) {
	a := bads(plain, .8, 200).Advise(plain)
	if a.Smallest != 0 || !strings.Contains(a.String(), "no eps up to 0.5 looks feasible; try another risk.label, or another draft model") {
		t.Errorf("%+v: %s", a, a)
	}
}

func TestAdviceOfEarlierAuditsClaimsNoNumbers(t *testing.T) {
	s := taught(plain)
	s.MaxWrongRate, s.ErrorProbability, s.Infeasible = plain.MaxWrongRate, plain.ErrorProbability, true
	a := s.Advise(plain)
	if a.Audits != 0 || a.Smallest != 0 || a.High != 1 {
		t.Errorf("got %+v", a)
	}
	if want := "infeasible at eps 0.05, by earlier audits; try a larger eps, another risk.label, or another draft model"; a.String() != want {
		t.Errorf("got %q", a)
	}
}

func TestAdviceTakesBackWhatLaterAuditsDoNotBear(t *testing.T) {
	r := Rule{MaxWrongRate: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}
	s := bads(r, .5, 0)
	for i := range 800 {
		d := s.View(r).Decide(Key{}, Sampling{Rate: 1}, 0)
		s.Open(r, d, 1, fmt.Sprint(i), time.Unix(3, 0))
		s.Close(r, fmt.Sprint(i), false)
		if s.Op > 0 {
			break
		}
		if a := s.Advise(r); a.Estimate < .08 && !strings.Contains(a.String(), "look better") {
			t.Fatalf("after %d good ones: %s", i, a)
		}
	}
	if a := s.Advise(r); s.Op == 0 || a != (Advice{}) {
		t.Errorf("operating index %d, %+v", s.Op, a)
	}
}

func TestAdviceFitsOneLine(t *testing.T) {
	a := Advice{Eps: .1, Audits: 260, Bad: 47, Estimate: .18, Low: .12, High: .26, Smallest: .21, SmallestLow: .15, SmallestHigh: .3}
	want := "infeasible at eps 0.1: of the best 20% of drafts the target refuses about 18% (12% … 26%, by 260 audits); " +
		"the smallest eps that looks feasible is 0.21 (0.15 … 0.3); or try another risk.label, or another draft model"
	if a.String() != want {
		t.Errorf("got %q", a)
	}
}

package risk

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// plain is a rule as people have it.
var plain = Rule{MaxDisagreement: .05, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}

// taught is a state whose grid was placed by the scores 0.005, 0.01, … 1, so that λ_j is 1 − j/20
// but for the step of 0.005.
func taught(r Rule) *State {
	var s State
	for i := range GridScores {
		d := s.View(r).Decide(Key{}, Sampling{Rate: 1}, 0)
		s.Open(r, &Audit{Decision: d, Score: float64(i+1) / GridScores, Ticket: fmt.Sprint("learn", i)}, time.Unix(1, 0))
	}
	return &s
}

// audit opens and closes one audit by the view of the moment.
func audit(s *State, r Rule, score float64, bad bool) OpenResult {
	d := s.View(r).Decide(Key{}, Sampling{Rate: 1}, 0)
	fate := s.Open(r, &Audit{Decision: d, Score: score, Ticket: "one"}, time.Unix(2, 0))
	if fate == Opened {
		s.Close(r, "one", bad)
	}
	return fate
}

func TestASummaryOfNothingPromisesNothing(t *testing.T) {
	var s State
	got := summary(&s, plain)
	if want := RequiredAudits(0, .05, .025/gridSize); *got.ToCertify != want {
		t.Errorf("%g audits certify, not %g", *got.ToCertify, want)
	}
	got.ToCertify = nil
	if want := (Summary{Phase: PhaseLearning, MaxDisagreement: .05, ErrorProbability: .05, High: 1, Bound: 1, Wanted: GridScores}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	audit(&s, plain, .5, false)
	if got := summary(&s, plain); got.Learned != 1 || got.Audits != 0 {
		t.Errorf("after one score: %+v", got)
	}
}

func TestASummaryTellsWhatCertified(t *testing.T) {
	s := taught(plain)
	for i := 0; s.Op == 0; i++ {
		audit(s, plain, 1, i == 20)
	}
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "open"}, time.Unix(2, 0))
	got := summary(s, plain)
	n, bad := s.Epochs[0].Closed(got.Op)
	if got.Op != s.Op || *got.Threshold != s.Grid.At(s.Op) || got.Acceptance != AcceptanceShare(s.Op) ||
		got.Audits != n || got.Bad != 1 || bad != 1 || got.Estimate != 1/float64(n) || got.Pending != 1 || got.Learned != 0 {
		t.Errorf("%+v with %d of %d", got, bad, n)
	}
	if !(got.Low <= got.Estimate && got.Estimate < got.High) || got.Warned {
		t.Errorf("%+v", got)
	}
	s.Close(plain, "open", false)
	if got := summary(s, plain); got.Bound > plain.MaxDisagreement {
		t.Errorf("what is certified is bounded by %.4f", got.Bound)
	}
}

func TestASummaryOfAnotherRuleServesNothing(t *testing.T) {
	s := taught(plain)
	for s.Op == 0 {
		audit(s, plain, 1, false)
	}
	strict := plain
	strict.MaxDisagreement = .01
	if got := summary(s, strict); got.Op != 0 || got.Threshold != nil || got.Bound <= .01 || *got.ToCertify <= 0 {
		t.Errorf("%+v", got)
	}
	if s.Op == 0 {
		t.Error("the summary changed the state")
	}
}

func TestASummaryOfWhatCannotBeCertifiedIsOutOfReach(t *testing.T) {
	s := taught(plain)
	for range 200 {
		audit(s, plain, 1, true)
	}
	if got := summary(s, plain); !s.Infeasible || got.ToCertify != nil {
		t.Errorf("%+v", got)
	}
	if needed := *summary(&State{}, Rule{MaxDisagreement: .1, ErrorProbability: .05}).ToCertify; math.Abs(needed-math.Log(40*gridSize)/-math.Log(.9)) > 1e-9 {
		t.Errorf("%g audits of the best kind", needed)
	}
}

func TestThePhaseIsThatOfTheEvidence(t *testing.T) {
	now := time.Unix(10_000, 0)
	certified := taught(plain)
	for certified.Op == 0 {
		audit(certified, plain, 1, false)
	}
	infeasible := taught(plain)
	for range 200 {
		audit(infeasible, plain, 1, true)
	}
	warm := Warmup{Began: now.Add(-time.Minute).UnixMicro()}
	stopped := warm
	stopped.Ended = WarmupDisagreement
	for want, s := range map[Phase]*State{
		PhaseCertified: certified, PhaseInfeasible: infeasible, PhaseUncertified: taught(plain), PhaseLearning: {},
		PhaseWarmup: {Warmup: warm}, PhaseStopped: {Warmup: stopped},
	} {
		if got := s.phase(s.View(plain), now, time.Hour); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if got := (&State{Warmup: warm}).phase(new(State).View(plain), now, time.Second); got != PhaseLearning {
		t.Errorf("after the time of its warm-up: %s", got)
	}
}

// summary is that of a state without a key.
func summary(s *State, r Rule) Summary {
	return (&KeyState{State: *s, Rule: r}).Summary(time.Unix(1e9, 0), 0)
}

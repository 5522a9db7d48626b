package risk

import (
	"math"
	"strconv"
	"testing"
	"time"
)

// serve books so many audits of drafts that the warm-up served, of which the first are bad.
func serve(s *State, r Rule, n, bad int) {
	for i := range n {
		ticket := "w" + strconv.Itoa(s.Warmup.Audits)
		s.OpenWarmup(r, ticket, time.Unix(5, 0))
		s.Close(r, ticket, i < bad)
	}
}

func TestAWarmupEndsOnceAndForGood(t *testing.T) {
	infeasible := func() *State {
		s := taught(plain)
		for !s.Infeasible {
			audit(s, plain, 1, true)
		}
		return s
	}
	wrong := func() *State {
		s := taught(plain)
		serve(s, plain, 10, 10)
		return s
	}
	for _, tc := range []struct {
		what  string
		state *State
		ended WarmupEnd
	}{{"certified", certified(plain), WarmupCertified}, {"infeasible", infeasible(), WarmupInfeasible}, {"wrong", wrong(), WarmupDisagreement}} {
		t.Run(tc.what, func(t *testing.T) {
			s, now := tc.state, time.Unix(10, 0)
			s.Drafted(plain, 1, 1, now)
			later := func(what string) {
				t.Helper()
				if w := s.View(plain).Warmup; w.Ended != tc.ended || w.IsRunning(now, time.Hour) {
					t.Errorf("%s: %+v", what, w)
				}
			}
			later("at once")
			for _, eps := range []float64{.01, .5, .05} {
				r := plain
				r.MaxDisagreement = eps
				s.Close(r, "unknown", true)
				later("another ε")
			}
			for range 300 {
				audit(s, plain, 1, false)
			}
			later("good audits")
			serve(s, plain, 20, 20)
			later("bad drafts of it, late")
			for range 200 {
				audit(s, plain, 1, true)
			}
			later("an alarm, and no hope")
			s.Epochs = nil // all leases are over
			audit(s, plain, 1, true)
			later("its leases over")
		})
	}
}

func TestAWarmupEndsWhereItsDraftsAreWrongBeyondDoubt(t *testing.T) {
	for _, eps := range []float64{.02, .05, .1, .3} {
		r := plain
		r.MaxDisagreement = eps
		s := taught(r)
		for n := 1; n <= 12; n++ { // all of them bad
			serve(s, r, 1, 1)
			if wrong := LogUpperE(n, n, eps) >= math.Log(1/r.ErrorProbability); wrong != (s.Warmup.Ended == WarmupDisagreement) {
				t.Errorf("ε %g: %d of %d bad: %+v", eps, n, n, s.Warmup)
			}
		}
		s = taught(r)
		for range 200 { // a share of ε
			serve(s, r, 100-int(100*eps), 0)
			serve(s, r, int(100*eps), int(100*eps))
		}
		if s.Warmup.Ended != WarmupRuns {
			t.Errorf("ε %g: ended by a share of ε: %+v", eps, s.Warmup)
		}
	}
}

func TestAWarmupsAuditsCertifyNothingAndCondemnNoThreshold(t *testing.T) {
	s := taught(plain)
	serve(s, plain, 5000, 0)
	if s.Op != 0 || s.Outcomes != 0 || s.Epochs[0].Audits != 0 || s.Warmup.Ended != WarmupRuns {
		t.Errorf("good: %+v", s)
	}
	s = taught(plain)
	serve(s, plain, 500, 500)
	if s.Infeasible || s.Outcomes != 0 || s.Epochs[0].Audits != 0 || s.Drift != (Drift{}) {
		t.Errorf("bad: %+v", s)
	}
}

func TestAWarmupOfWhichTooManyAuditsHaveNoOutcomeEnds(t *testing.T) {
	s := taught(plain)
	for i := range maxWarmupOpen {
		if fate := s.OpenWarmup(plain, strconv.Itoa(i), time.Unix(5, 0)); fate != Opened || s.Warmup.Ended != WarmupRuns {
			t.Fatalf("audit %d: %s, %+v", i, fate, s.Warmup)
		}
	}
	if fate := s.OpenWarmup(plain, "one more", time.Unix(5, 0)); fate != Full || s.Warmup.Ended != WarmupDisagreement {
		t.Errorf("one more: %s, %+v", fate, s.Warmup)
	}
	for i := range maxWarmupOpen {
		s.Close(plain, strconv.Itoa(i), false)
	}
	if n, bad := s.Warmup.Closed(); n != maxWarmupOpen || bad != 0 || s.Warmup.Open != 0 || s.Warmup.Ended != WarmupDisagreement {
		t.Errorf("%d closed, %d bad: %+v", n, bad, s.Warmup)
	}
}

func TestTheCautiousThresholdAcceptsAboutAThird(t *testing.T) {
	rng := seeded(3)
	var s State
	if s.Scores = nil; IsKnown(s.cautious()) {
		t.Error("known by no scores")
	}
	for n := 1; n < GridScores; n++ {
		s.Scores = append(s.Scores, rng.Float64())
		score := s.cautious()
		if IsKnown(score) != (n >= warmupScores) {
			t.Fatalf("%d scores: %g", n, score)
		}
		reach := 0
		for _, x := range s.Scores {
			if x >= score {
				reach++
			}
		}
		if IsKnown(score) && reach != n/3 {
			t.Errorf("%d of %d reach it", reach, n)
		}
	}
	if s := taught(plain); s.cautious() != s.Grid.At(warmupIndex) {
		t.Errorf("a grid: %g", s.cautious())
	}
	for _, g := range []Grid{{.5}, {.5, .4}, {.9, .8, .7}} { // equal scores were merged
		if s := (State{Version: 1, Grid: g}); s.cautious() != g[0] {
			t.Errorf("%v: %g", g, s.cautious())
		}
	}
	equal := State{Scores: make([]float64, 150)}
	if score := equal.cautious(); score != 0 {
		t.Errorf("of equal scores %g", score)
	}
}

package risk

import (
	"math"
	"slices"
	"testing"
	"time"
)

// pasts are n audits with scores that go evenly from 0 to 1 over and over; each every-th is bad.
func pasts(n, every int, floor float64) (out []LogEntry) {
	for i := range n {
		out = append(out, past(float64(i*37%1000)/1000, floor, LabelOf(i%every == every-1)))
	}
	return out
}

// past is one audit.
func past(score, floor float64, label string) LogEntry {
	return LogEntry{Audit: Audit{Score: score, Decision: Decision{Floor: floor}}, Label: label}
}

func TestPastAuditsAreEvidenceAsOthers(t *testing.T) {
	var s State
	r := plain
	r.MaxDisagreement = .2
	p := PlanImport(r, nil, pasts(1000, 100, -1))
	if p.Audits > 1000 || p.Audits < 900 || len(p.Grid) != gridSize {
		t.Fatalf("%+v", p)
	}
	if !s.ApplyImport(r, p, time.Unix(9, 0)) {
		t.Fatal("not taken")
	}
	if e := s.Epochs[0]; s.Version != time.Unix(9, 0).UnixMicro() || e.Audits != p.Audits || e.N != p.N || e.K != p.K || e.O != [gridSize]int{} {
		t.Errorf("%+v", s)
	}
	if s.Op < 10 {
		t.Errorf("1 %% of bad audits certify %d", s.Op)
	}
	for i := range s.Op {
		if LogE(p.N[i], p.K[i], r.MaxDisagreement) < math.Log(2/r.ErrorProbability) {
			t.Errorf("index %d has no certificate", i+1)
		}
	}
}

func TestAPastAuditCountsForTheIndicesThatItsRegionHeld(t *testing.T) {
	s := taught(plain) // λ_j is about 1 − (j+3)/20
	p := PlanImport(plain, s.Grid, []LogEntry{past(.82, .58, Good), past(.57, .36, Lost), past(.2, .4, Good)})
	if p.Audits != 2 || p.Bad != 1 {
		t.Fatalf("%+v", p)
	}
	for j := 1; j <= gridSize; j++ {
		n, k := 0, 0
		if lambda := s.Grid.At(j); lambda <= .82 && lambda >= .58 {
			n++
		} else if lambda <= .57 && lambda >= .36 {
			n, k = n+1, k+1
		}
		if p.N[j-1] != n || p.K[j-1] != k {
			t.Errorf("index %d, %.3f: %d of %d", j, s.Grid.At(j), p.K[j-1], p.N[j-1])
		}
	}
}

func TestPastAuditsAreALeaseAtMostAndExpireAfterHalfOfOne(t *testing.T) {
	r := plain
	r.MaxDisagreement, r.LeaseAudits = .2, 600
	var s State
	old := pasts(500, 1, -1) // bad ones, which there is no room for
	p := PlanImport(r, nil, append(old, pasts(700, 1000, -1)...))
	if p.Audits != r.LeaseAudits || p.Bad != 0 {
		t.Fatalf("%+v", p)
	}
	s.ApplyImport(r, p, time.Unix(9, 0))
	if s.Op == 0 {
		t.Fatal("nothing is certified")
	}
	first := s.Epochs[0].ID
	for i := range r.LeaseAudits/2 - 1 {
		audit(&s, r, 1, false)
		if s.Epochs[0].ID != first || s.Op == 0 {
			t.Fatalf("gone after %d audits", i+1)
		}
	}
	audit(&s, r, 1, false)
	if slices.ContainsFunc(s.Epochs, func(e Epoch) bool { return e.ID == first }) || s.Op == 0 {
		t.Errorf("after half a lease: %d, %+v", s.Op, s.Epochs)
	}
}

func TestPastAuditsAreNotTakenWhereThereIsEvidence(t *testing.T) {
	var s State
	p := PlanImport(plain, nil, pasts(500, 50, -1))
	if few := PlanImport(plain, nil, pasts(GridScores-1, 50, -1)); few.Audits != 0 || s.ApplyImport(plain, few, time.Unix(9, 0)) {
		t.Errorf("a grid of few scores: %+v", few)
	}
	if !s.ApplyImport(plain, p, time.Unix(9, 0)) {
		t.Fatal("not taken")
	}
	if s.ApplyImport(plain, p, time.Unix(9, 0)) {
		t.Error("taken twice")
	}
	s.resetAfterDrift()
	was := s.Epochs[0]
	if s.ApplyImport(plain, p, time.Unix(9, 0)) || s.Epochs[0].N != was.N {
		t.Error("evidence of before an alarm was taken")
	}
}

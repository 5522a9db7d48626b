package risk

import "testing"

// The epoch that is living when a certificate expires is the first of those that follow without one.
func TestEpochsAfterACertificateExpiresMayErrNoMoreThanAllOthers(t *testing.T) {
	rule := Rule{MaxDisagreement: .05, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 1e9}
	s := &State{Version: 1, Grid: Grid{0}}
	for i := 0; s.Op == 0; i++ {
		if audit(s, rule, 1, false); i > 400 {
			t.Fatal("nothing is certified")
		}
	}
	levels := map[int64]float64{} // of the epochs that lived at any time without a certificate
	all := 0.0
	for i := range 4000 {
		audit(s, rule, 1, i%18 == 0) // neither good enough nor hopeless
		if s.Op > 0 {
			continue
		}
		for j := range s.Epochs {
			e := &s.Epochs[j]
			if _, known := levels[e.ID]; !known {
				levels[e.ID] = e.level(rule.ErrorProbability)
				all += levels[e.ID]
			}
		}
	}
	if most := .83 * rule.ErrorProbability; len(levels) < 10 || all > most {
		t.Fatalf("%d epochs may err with %.4f, and %.4f is documented", len(levels), all, most)
	}
}

func TestEpochsInARowThatCertifyNothingMayErrLessAndLess(t *testing.T) {
	rule := Rule{MaxDisagreement: .05, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 1e9}
	s := &State{Version: 1, Grid: Grid{0}}
	last, all := 0, 0.0
	for i := range 3000 {
		audit(s, rule, 1, i%18 == 0) // neither good enough nor hopeless
		if e := &s.Epochs[len(s.Epochs)-1]; e.Turn != last {
			if e.Turn != last+1 {
				t.Fatalf("turn %d after %d", e.Turn, last)
			}
			last = e.Turn
			all += e.level(rule.ErrorProbability)
		}
	}
	if s.Op != 0 || last < 10 || all > rule.ErrorProbability {
		t.Fatalf("index %d, turn %d: all may err with %g", s.Op, last, all)
	}
	for i := 0; s.Op == 0 || s.Epochs[len(s.Epochs)-1].Turn != 1; i++ {
		if audit(s, rule, 1, false); i > 2000 {
			t.Fatalf("index %d, turn %d: a certificate does not begin the count anew", s.Op, s.Epochs[len(s.Epochs)-1].Turn)
		}
	}
}

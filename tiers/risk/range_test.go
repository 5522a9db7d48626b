package risk

import (
	"testing"
	"time"
)

func TestAFullRangeAuditIsEvidenceForEveryThreshold(t *testing.T) {
	s, now := taught(plain), time.Unix(3, 0)
	v := s.View(plain)
	near := v.Decide(Key{}, Sampling{Rate: 1, FullRange: .2}, .2)
	wide := v.Decide(Key{}, Sampling{Rate: 1, FullRange: .2}, .19)
	if near.Hi != v.Hi || near.Floor != v.Floor || wide.Hi != gridSize || wide.Floor != -Unreachable || !near.Audited || !wide.Audited {
		t.Fatalf("near %+v, full range %+v", near, wide)
	}
	if got := s.Open(plain, &Audit{Decision: near, Score: s.Grid[gridSize-1], Ticket: "near"}, now); got != OutOfRange {
		t.Errorf("below the floor: %s", got)
	}
	if got := s.Open(plain, &Audit{Decision: wide, Score: s.Grid[gridSize-1], Ticket: "wide"}, now); got != Opened || s.Epochs[0].N[gridSize-1] != 1 || s.Epochs[0].N[0] != 0 {
		t.Errorf("full range: %s, %v", got, s.Epochs[0].N)
	}
	counts := s.Epochs[0].N
	if got := s.Open(plain, &Audit{Decision: wide, Score: s.Grid[gridSize-1] - 1, Ticket: "below"}, now); got != Opened || s.Epochs[0].N != counts || s.Epochs[0].Audits != 2 {
		t.Errorf("full range, below every threshold: %s, %v", got, s.Epochs[0].N)
	}
	if !s.Close(plain, "below", true) || s.Epochs[0].N != counts {
		t.Errorf("its outcome counted for a threshold: %v", s.Epochs[0].N)
	}
	if d := v.Decide(Key{}, Sampling{Rate: .5, FullRange: .2}, .1); d.Floor == -Unreachable {
		t.Errorf("a tenth of the requests has no floor, want one in ten of half: %+v", d)
	}
}

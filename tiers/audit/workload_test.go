package audit

import (
	"math"
	"testing"
	"time"
)

// Four requests a minute, of which every second is a draft that was given up after 30 tokens, ten of them kept.
func TestTheWorkloadOfAKeyIsThatOfItsLastHours(t *testing.T) {
	var w workload
	now := time.Unix(1e9, 0)
	if v := w.view(now); v != (Workload{}) {
		t.Errorf("of nothing: %+v", v)
	}
	for i := range 4 * 60 * 6 {
		tally, judged := Tally{Prompt: 500, Target: 300}, i%2 == 0
		if judged {
			tally.Target, tally.Accepted, tally.Drafted = 290, 10, 30
		}
		w.add(tally, judged, now)
		now = now.Add(15 * time.Second)
	}
	v := w.view(now)
	near := func(got, want float64) bool { return math.Abs(got/want-1) < .02 }
	if !near(v.PerDay, 4*60*24) || !near(v.Prompt, 500) || !near(v.Output, 300) || !near(v.Holdback, 30) || !near(v.Salvaged, 1./3) {
		t.Errorf("%+v", v)
	}
	if later := w.view(now.Add(3 * time.Hour)); later.PerDay > v.PerDay/10 || later.Prompt != v.Prompt {
		t.Errorf("after three hours without one: %+v", later)
	}
	if back := w.view(now.Add(-time.Hour)); math.IsNaN(back.PerDay) || back.PerDay > 1.1*v.PerDay {
		t.Errorf("by a clock that went back: %+v", back)
	}
}

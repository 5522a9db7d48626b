package pool

import (
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

func TestWhoComesBackFromARefusalStartsColdAndGradually(t *testing.T) {
	b := newBench(t, Options{})
	b.tick(0, func(int) pressure.Reading { return works(0, 1) })
	l := pick(t, b.Pool, Demand{Exclude: []string{"b", "c", "d"}})
	l.ReportRefused(nil)
	l.Done(0)
	b.now = b.now.Add(5 * time.Second)
	if !b.Observe("a", works(0, 2), nil) {
		t.Fatal("unknown")
	}
	b.tick(0, func(int) pressure.Reading { return works(0, 3) })
	if n := b.picks(400); n == 0 || n > 30 {
		t.Errorf("%d of 400 picks at once", n)
	}
}

func TestBackendsOfTheStartTakeTheirShareAtOnceAndLaterOnesDoNot(t *testing.T) {
	b := newBench(t, Options{})
	for i, x := range *b.set.Load() {
		if x.health.ramp(b.now) != 1 {
			t.Errorf("backend %d ramps at the start of everything", i)
		}
	}
	b.replace([]string{"http://a", "http://new"})
	set := *b.set.Load()
	if set[0].health.ramp(b.now) != 1 || set[1].health.ramp(b.now) != minRamp {
		t.Errorf("ramps %v and %v", set[0].health.ramp(b.now), set[1].health.ramp(b.now))
	}
}

package lookup

import (
	"testing"
	"time"
)

func TestARedisThatComesAndGoesIsLeftAloneForLongerAndLonger(t *testing.T) {
	var g health
	now := time.Now()
	fall := func() time.Duration {
		for range MaxFailures - 1 {
			if g.failed(now) {
				t.Fatal("too early")
			}
		}
		if !g.failed(now) || g.probeDue(now) {
			t.Fatal("it is asked on")
		}
		return g.until.Sub(now)
	}
	climb := func() {
		for range 3 { // tries that fail leave the pause as it is
			now = g.until
			g.probed(false, now)
		}
		now = g.until
		if !g.probeDue(now) {
			t.Fatal("it is not tried")
		}
		g.probed(true, now)
	}
	for _, want := range []time.Duration{pause, 2 * pause, 4 * pause, 8 * pause, maxPause, maxPause} {
		if got := fall(); got < want || got >= want*3/2 {
			t.Errorf("left alone for %v, want %v and up to half as much again", got, want)
		}
		climb()
		now = now.Add(shortStay - time.Millisecond)
	}
	now = now.Add(time.Millisecond)
	if got := fall(); got < pause || got >= pause*3/2 {
		t.Errorf("after a long stay: left alone for %v", got)
	}
}

func TestARedisThatFailsHalfOfTheTimeIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name    string
		failing func(i int) bool
		every   time.Duration
		falls   bool
	}{
		{"every other", func(i int) bool { return i%2 == 1 }, 10 * time.Millisecond, true},
		{"one of three", func(i int) bool { return i%3 == 1 }, 10 * time.Millisecond, false},
		{"every other of few", func(i int) bool { return i%2 == 1 }, window / minCalls * 5 / 4, false},
	} {
		var g health
		now := time.Now()
		fell := false
		for i := range 1000 {
			now = now.Add(c.every)
			if !c.failing(i) {
				g.answered(now)
			} else if g.failed(now) {
				fell = true
				break
			}
		}
		if fell != c.falls {
			t.Errorf("%s: left alone %t", c.name, fell)
		}
	}
}

func TestFailuresOfLongAgoDoNotCount(t *testing.T) {
	var g health
	now := time.Now()
	for range 4 * minCalls { // half of them fail, never so many at once
		for i := range minCalls - 2 {
			if i%2 == 1 && g.failed(now) {
				t.Fatal("left alone")
			}
			g.answered(now)
		}
		now = now.Add(window)
	}
}

func TestATryThatWasNotDueIsHarmless(t *testing.T) {
	for _, good := range []bool{false, true} {
		var g health
		now := time.Now()
		g.probed(good, now)
		for range MaxFailures {
			g.failed(now)
		}
		if !g.away.Load() || g.probeDue(now) || !g.probeDue(now.Add(2*pause)) {
			t.Errorf("good %t: away %t, until %v later", good, g.away.Load(), g.until.Sub(now))
		}
	}
}

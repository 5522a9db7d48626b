package breaker

import (
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// opened is a gate that opened for the fleet at the epoch, for ten seconds, the third time in a row.
func opened() *gate {
	return &gate{open: true, fleet: true, since: epoch, changed: epoch, until: epoch.Add(10 * time.Second), turn: 3, probed: true}
}

func TestAnOpenGateIsDueWhenItsTimeIsOverOrTheBackendWasRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *gate)
		after  time.Duration
		due    bool
		turn   int // whose probe is due; 0: each replica's
	}{
		"before its time":                          {after: 10*time.Second - 1},
		"at its time the owner probes":             {after: 10 * time.Second, due: true, turn: 3},
		"until patience ends only the owner":       {after: 15*time.Second - 1, due: true, turn: 3},
		"then each replica":                        {after: 15 * time.Second, due: true},
		"restarted: each replica, at once":         {change: func(g *gate) { g.restarted = true }, after: time.Second, due: true},
		"restarted: each replica, after its time":  {change: func(g *gate) { g.restarted = true }, after: 11 * time.Second, due: true},
		"open on this replica alone: each replica": {change: func(g *gate) { g.fleet = false }, after: 10 * time.Second, due: true},
	} {
		g := opened()
		if c.change != nil {
			c.change(g)
		}
		if v := g.decide(epoch.Add(c.after)); v.due != c.due || v.turn != c.turn || (v.state == HalfOpen) != c.due {
			t.Errorf("%s: due %v, turn %d, %v", name, v.due, v.turn, v.state)
		}
	}
}

func TestAGateIsOpenHereAloneWhileReplicasHearEachOther(t *testing.T) {
	g := opened()
	g.fleet, g.heard = false, epoch
	for age, alone := range map[time.Duration]bool{staleAfter - 1: true, staleAfter: false} {
		if v := g.decide(epoch.Add(age)); v.alone != alone {
			t.Errorf("%v after the last text: alone %v", age, v.alone)
		}
	}
}

func TestCountsOfOneWhoHasNotHeardOfTheClosingAreNotTaken(t *testing.T) {
	for age, taken := range map[time.Duration]bool{window + slack - time.Millisecond: false, window + slack: true} {
		g := &gate{changed: epoch}
		g.take(&report{replica: "b", at: epoch.Add(age), Faults: 9})
		if (len(g.told) == 1) != taken {
			t.Errorf("%v after the closing: %v", age, g.told)
		}
	}
}

func TestOnlyNewFaultsOpenAGateForTheFleet(t *testing.T) {
	tell := func(successes, faults int, cut bool) *report {
		return &report{replica: "b", at: epoch, Successes: successes, Faults: faults, Cut: cut}
	}
	for name, c := range map[string]struct {
		first, then *report
		opens, cut  bool
	}{
		"too few calls":             {then: tell(0, minFinished-1, false)},
		"enough, all faults":        {then: tell(0, minFinished, false), opens: true},
		"half of them":              {then: tell(minFinished, minFinished, false), opens: true},
		"less than half":            {then: tell(minFinished+1, minFinished, false)},
		"none reached the backend":  {then: tell(0, minFinished, true), opens: true, cut: true},
		"as many faults as before":  {first: tell(3*minFinished, minFinished, false), then: tell(0, minFinished, false)},
		"more faults than before":   {first: tell(3*minFinished, minFinished, false), then: tell(0, minFinished+1, false), opens: true},
		"half could not be reached": {first: &report{replica: "c", at: epoch, Faults: minFinished, Cut: true}, then: tell(0, minFinished, false), opens: true},
	} {
		g := &gate{}
		if c.first != nil {
			g.take(c.first)
			if c.first.replica == "b" {
				g.news = false
			}
		}
		g.take(c.then)
		if _, cut, opens := g.judge(epoch); opens != c.opens || cut != c.cut {
			t.Errorf("%s: opens %v, cut %v", name, opens, cut)
		}
	}
}

func TestCountsAreUsedForThreeSecondsAndKeptForTen(t *testing.T) {
	for age, want := range map[time.Duration][2]int{2*staleAfter - 1: {7, 1}, 2 * staleAfter: {0, 1}, window: {0, 1}, window + 1: {0, 0}} {
		g := &gate{}
		g.take(&report{replica: "b", at: epoch, Faults: 7})
		if faults, _, _ := g.judge(epoch.Add(age)); faults != want[0] || len(g.told) != want[1] {
			t.Errorf("%v old: %d faults, %d texts", age, faults, len(g.told))
		}
	}
}

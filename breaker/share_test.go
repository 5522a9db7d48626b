package breaker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heard is the longest time until all replicas know what one has reported.
const heard = time.Second

// within reports whether something becomes true in a time.
func within(d time.Duration, is func() bool) bool {
	for end := time.Now().Add(d); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func TestABackendThatStaysSickIsProbedByOneReplicaAtATimeAndNeverByARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &site{}
		_, all := fleetOf(t, 8, w)
		w.set("a", errBad)
		all[0].calls("a", 5, errBad)
		time.Sleep(heard)
		asked := 0
		for range 1200 { // two minutes
			time.Sleep(100 * time.Millisecond)
			for _, m := range all {
				asked += m.calls("a", 1, errBad)
			}
		}
		if asked > 0 {
			t.Errorf("%d requests were used to test it", asked)
		}
		probes, by := w.seen(), map[string]bool{}
		if len(probes) < 5 || len(probes) > 8 {
			t.Errorf("%d probes in 2 minutes: %v", len(probes), probes)
		}
		for i := range probes[1:] {
			want := min(4*time.Second<<i, 30*time.Second)
			if gap := probes[i+1].at.Sub(probes[i].at); gap < want*8/10 || gap > want*12/10+time.Second {
				t.Errorf("probe %d came %v after the last, want %v", i+1, gap, want)
			}
			by[probes[i].by] = true
		}
		if len(by) == 1 {
			t.Errorf("only one replica has tested it: its own way may be what fails")
		}
		w.set("a", nil)
		if !within(38*time.Second, func() bool { return every(all, "a", Closed) }) {
			t.Fatal("not closed")
		}
		last := w.seen()[len(probes):]
		if len(last) != 2 || last[0].by != last[1].by {
			t.Errorf("it was closed by %v, want two probes of one replica", last)
		}
		if r := all[1].Ramp("big", "a"); r < 0.1 || r > 0.25 {
			t.Errorf("a ramp of %v", r)
		}
		time.Sleep(5 * time.Second)
		if r := all[1].Ramp("big", "a"); r < 0.5 || r > 0.75 {
			t.Errorf("a ramp of %v after five seconds", r)
		}
		time.Sleep(6 * time.Second)
		if r := all[1].Ramp("big", "a"); r != 1 {
			t.Errorf("a ramp of %v after eleven seconds", r)
		}
	})
}

func TestAReplicaWithABrokenNetworkOpensNobodyElses(t *testing.T) {
	for name, change := range map[string]func(x *exchange){
		"all texts arrive": func(*exchange) {},
		"texts are lost":   func(x *exchange) { x.loss = 0.1 },
		"texts are late":   func(x *exchange) { x.delay = 400 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				well, cut := &site{}, &site{}
				x, all := fleetOf(t, 7, well)
				x.set(func() { change(x) })
				for _, b := range members {
					cut.set(b, errUnreachable)
				}
				sick := x.join(t, "sick", cut)
				for i := range 200 { // more than two windows
					for _, b := range members {
						for _, m := range all {
							if m.calls(b, 1, nil) != 1 {
								t.Fatalf("%v: %s is open for %s", time.Duration(i)*100*time.Millisecond, b, m.id)
							}
						}
						if i > 30 {
							sick.calls(b, 1, errUnreachable)
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := sick.shut(members); len(got) != len(members) || !sick.state("a").Alone || len(well.seen()) != 0 {
					t.Errorf("the sick one keeps out %v; the others probed %d times", got, len(well.seen()))
				}
			})
		})
	}
}

// TestEveryOpeningOfAFleetIsTestedOnceAndClosedForAll has faults, a test and a recovery many times: while texts are lost,
// late and out of order, and while the owner leaves.
func TestEveryOpeningOfAFleetIsTestedOnceAndClosedForAll(t *testing.T) {
	for name, c := range map[string]struct {
		loss  float64
		delay time.Duration
		leave bool
	}{"well": {}, "loss": {loss: 0.3}, "delay": {delay: 240 * time.Millisecond}, "both": {0.2, 240 * time.Millisecond, false}, "leave": {leave: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &site{}
				x, all := fleetOf(t, 5, w)
				x.set(func() { x.loss, x.delay = c.loss, c.delay })
				for cycle := range 30 {
					all[cycle%len(all)].calls("a", 5, errBad)
					if !within(heard+4*c.delay, func() bool { return every(all, "a", Open) }) && c.loss == 0 {
						t.Fatalf("cycle %d: not open for all", cycle)
					}
					if c.leave && cycle%7 == 0 && len(all) > 2 {
						for i, m := range all {
							if x.owns(m.id, "a") {
								m.stop()
								all = append(all[:i:i], all[i+1:]...)
								break
							}
						}
					}
					if time.Sleep(9 * time.Second); !every(all, "a", Closed) {
						t.Fatalf("cycle %d: not closed: %+v", cycle, all[0].state("a"))
					}
					time.Sleep(11 * time.Second)
				}
				if n := len(w.seen()); n < 60 || n > 60 && c.loss == 0 {
					t.Errorf("%d probes in 30 cycles", n)
				}
			})
		})
	}
}

func TestABackendThatWasRestartedIsTestedBeforeItsTimeAndStaysClosed(t *testing.T) {
	for _, delay := range []time.Duration{0, 240 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := &site{}
			x, all := fleetOf(t, 3, w)
			x.set(func() { x.delay = delay })
			time.Sleep(time.Second)
			all[2].calls("a", 6, errBad)
			time.Sleep(heard)
			all[2].Restarted("big", "a")
			time.Sleep(2 * time.Second)
			for range 20 {
				if !every(all, "a", Closed) {
					t.Fatalf("delay %v: after its restart %+v, %+v", delay, all[0].state("a"), all[2].state("a"))
				}
				time.Sleep(time.Second)
			}
			all[2].Restarted("big", "a")
			all[2].calls("a", 6, errBad)
			if !within(heard+4*delay, func() bool { return every(all, "a", Open) }) {
				t.Error("a restart while it was closed ends a later open time")
			}
		})
	}
}

func TestWithoutAnExchangeEachReplicaTestsItsOwnBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &site{}
		x, all := fleetOf(t, 2, w)
		all[0].calls("a", 5, errBad)
		time.Sleep(heard)
		w.set("a", errBad)
		x.set(func() { x.away = true })
		time.Sleep(10 * time.Second)
		if !all[0].Open("big", "a") || !all[1].Open("big", "a") || all[1].calls("a", 1, nil) != 0 {
			t.Error("what was open is closed without a test")
		}
		w.set("a", nil)
		time.Sleep(20 * time.Second)
		if !every(all, "a", Closed) {
			t.Fatalf("%+v, %+v", all[0].state("a"), all[1].state("a"))
		}
		all[1].calls("b", 5, errBad)
		if time.Sleep(heard); all[0].Open("big", "b") || !all[1].Open("big", "b") || all[1].state("b").Alone {
			t.Errorf("%+v, %+v", all[0].state("b"), all[1].state("b"))
		}
		x.set(func() { x.away = false })
		time.Sleep(heard)
		if !all[1].Open("big", "b") {
			t.Errorf("after the way back: %+v", all[1].state("b"))
		}
	})
}

func TestAReplicaThatJoinsLearnsWhatIsOpenAndBelievesNoOldText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &site{}
		x, all := fleetOf(t, 2, w)
		w.set("a", errBad)
		all[0].calls("a", 5, errBad)
		time.Sleep(10 * time.Second)
		late := x.join(t, "late", w)
		if time.Sleep(heard); !late.Open("big", "a") {
			t.Error("it has not learned what is open")
		}
		for _, m := range all {
			m.stop()
		}
		late.stop()
		if time.Sleep(20 * time.Second); x.join(t, "later", w).Open("big", "a") {
			t.Error("an old text counts")
		}
	})
}

func TestTextsOfAnyShapeAreHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all := fleetOf(t, 1, &site{})
		for _, text := range []string{
			"", "nonsense", "[]", "{}", "[null]", `[{"b":"big/a","f":-5}]`, `[{"b":"big/a","f":1e30}]`, `[{"b":"big/a","n":1,"a":-9000000000,"l":5}]`,
			`[{"b":"big/a","n":1,"l":900000000}]`, `[{"b":"big/a","n":-7}]`, `[{"b":"big","f":9}]`, `[{"b":"gone/x","n":1,"l":900}]`, strings.Repeat("[", 2000),
		} {
			all[0].Take("r9", text, 0)
			all[0].Take("r9", text, -time.Second)
			if time.Sleep(heard); all[0].Open("big", "a") || len(all[0].States()) != len(members) {
				t.Errorf("%.60q: %+v", text, all[0].States())
			}
		}
	})
}

func TestATextIsBoundedAndTellsWhatMattersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, all := fleetOf(t, 2, &site{})
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf("backend-%03d", i))
		}
		for _, m := range all {
			if m.Retain("big", many); m.Tell() != nil {
				t.Error("an idle replica tells something")
			}
		}
		for _, b := range many {
			all[0].calls(b, 50, nil)
		}
		all[0].calls("backend-150", 101, errBad)
		if time.Sleep(heard); !all[1].Open("big", "backend-150") {
			t.Error("the faults were not told")
		}
		x.set(func() {
			if x.longest > maxText || x.longest < maxText/2 {
				t.Errorf("a text has %d bytes", x.longest)
			}
		})
	})
}

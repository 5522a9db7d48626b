package breaker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestABusyBackendThatFailsForAllIsOpenForTheFleetAtOnce(t *testing.T) {
	for name, perSecond := range map[string]int{"busy": 200, "idle": 10} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
				w := &site{}
				all := fleetOf(t, o, 3, w)
				for _, m := range all {
					m.Retain("big", []string{"a", "b"})
				}
				each := time.Second / time.Duration(perSecond)
				var wrong error
				traffic := func(until func() bool) time.Duration {
					begun := time.Now()
					for !until() && time.Since(begun) < 20*time.Second {
						for _, m := range all {
							m.calls("a", 1, wrong)
							time.Sleep(each / 3)
						}
					}
					return time.Since(begun)
				}
				begun := time.Now()
				traffic(func() bool { return time.Since(begun) > 12*time.Second })
				wrong = errBad
				w.set("a", errBad)
				tripped := func() bool {
					for _, m := range all {
						if !m.Open("big", "a") {
							return false
						}
					}
					return true
				}
				traffic(tripped)
				if took := traffic(func() bool { return fleetIsOpen(all) }); took > 2*tickEvery {
					t.Errorf("the fleet's is open %v after those of all replicas", took)
				}
				traffic(func() bool { return len(w.seen()) >= 3 })
				for _, p := range w.seen()[1:] {
					if since := p.at.Sub(w.seen()[0].at); since < 3*time.Second {
						t.Errorf("a second stream of probes: %v", w.seen())
					}
				}
				wrong = nil
				w.set("a", nil)
				if took := traffic(func() bool { return every(all, "a", Closed) }); took >= 20*time.Second {
					t.Errorf("not closed: %+v", all[0].state("a"))
				}
			})
		})
	}
}

// fleetIsOpen reports whether it is the fleet's word that keeps every replica out.
func fleetIsOpen(all []*member) bool {
	for _, m := range all {
		if s := m.state("a"); s.State == Closed || s.Alone {
			return false
		}
	}
	return true
}

func TestWhoeverTakesBackItsSuccessesLeavesThoseOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		all := fleetOf(t, o, 3, &site{})
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		for range 10 { // the sick one had most of the traffic, the others one call each in a second
			for i, m := range all {
				m.calls("a", 1+10*(i/2), nil)
			}
			time.Sleep(time.Second)
		}
		all[2].calls("a", 8, errBad)
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			if all[0].Open("big", "a") || all[1].Open("big", "a") {
				t.Fatal("it is open for all")
			}
		}
		if !all[2].state("a").Alone {
			t.Errorf("%+v", all[2].state("a"))
		}
	})
}

func TestWhatTheFleetForgotAtAnOpeningIsNotTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, raw *redis.Client) {
		all := fleetOf(t, o, 3, &site{})
		for _, m := range all {
			m.Retain("big", []string{"a", "b"})
		}
		all[0].calls("a", 100, nil)
		time.Sleep(time.Second)
		now := time.Now().UnixMilli()
		raw.Del(t.Context(), keyBreaker+"big/a")
		raw.HSet(t.Context(), keyBreaker+"big/a", "st", 2, "ou", now+2000)
		for _, state := range []State{Open, Closed} {
			begun := time.Now()
			for !every(all, "a", state) {
				time.Sleep(10 * time.Millisecond)
				if time.Since(begun) > 5*time.Second {
					t.Fatalf("not %s", state)
				}
			}
		}
		all[1].calls("a", 20, nil)
		all[2].calls("a", 20, nil)
		time.Sleep(time.Second)
		all[0].calls("a", 6, errBad)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if all[1].Open("big", "a") || all[2].Open("big", "a") {
				t.Fatal("the successes of others were taken back")
			}
		}
		if !all[0].state("a").Alone {
			t.Errorf("%+v", all[0].state("a"))
		}
	})
}

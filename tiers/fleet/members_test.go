package fleet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/internal/redistest"
)

// takeover is how long the backends of a replica that died may be without an owner.
const takeover = goneAfter + 550*time.Millisecond

func TestEveryBackendHasOneOwnerAmongThreeReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b, c := join(t, o, "a"), join(t, o, "b"), join(t, o, "c")
		for _, m := range []*member{a, b, c} {
			m.run(t)
		}
		time.Sleep(time.Second)
		by := owners("small", 600, a, b, c)
		oneEach(t, by)
		share := map[string]int{}
		for _, who := range by {
			share[who[0]]++
		}
		for _, m := range []*member{a, b, c} {
			if n := share[m.self]; n < 160 || n > 240 {
				t.Errorf("%s owns %d of 600 backends", m.self, n)
			}
			if !m.Sharing() || !slices.Equal(m.Members(), []string{"a", "b", "c"}) {
				t.Errorf("%s is %s with %v", m.self, m.Level(), m.Members())
			}
		}
		if cmp.Equal(by, owners("large", 600, a, b, c)) {
			t.Error("two pools have the same owners")
		}
	})
}

func TestWhoJoinsTakesItsShareAndNobodyElsesMoves(t *testing.T) {
	before, after := newView([]string{"a", "b", "c"}, time.Now()), newView([]string{"a", "b", "c", "d"}, time.Now())
	moved := 0
	for i := range 10_000 {
		backend := fmt.Sprint("b", i)
		old, now := before.owner("p", backend), after.owner("p", backend)
		if old != now {
			moved++
			if now != "d" {
				t.Fatalf("%s went from %s to %s", backend, old, now)
			}
		}
	}
	if moved < 2300 || moved > 2700 {
		t.Errorf("%d of 10,000 backends moved to the fourth replica", moved)
	}
}

func TestOwnersAreTheSameInEveryVersion(t *testing.T) {
	v := newView([]string{"replica-1", "replica-2", "replica-3"}, time.Now())
	var got []string
	for _, backend := range []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"} {
		got = append(got, v.owner("small", backend)[len("replica-"):])
	}
	if want := []string{"2", "1", "1", "1", "1", "1"}; !slices.Equal(got, want) {
		t.Errorf("owners %q, not %q: replicas of two versions would disagree", got, want)
	}
}

func TestWhoLeavesIsFollowedByTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		stop := b.run(t)
		time.Sleep(2 * time.Second)
		oneEach(t, owners("small", 50, a, b))
		stop()
		time.Sleep(551 * time.Millisecond)
		oneEach(t, owners("small", 50, a))
		if !slices.Equal(a.Members(), []string{"a"}) {
			t.Errorf("members %v", a.Members())
		}
	})
}

func TestWhoDiesIsFollowedWithinOneAndAHalfSecondsAndATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		a, b := join(t, o, "a"), join(t, o, "b")
		a.run(t)
		ticks(t, b) // its last
		died := time.Now()
		for len(a.Members()) != 2 {
			time.Sleep(10 * time.Millisecond)
		}
		for len(a.Members()) != 1 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(died); took < goneAfter || took > takeover+10*time.Millisecond {
			t.Errorf("taken over after %v", took)
		}
		oneEach(t, owners("small", 50, a))
	})
}

func TestAReplicaWithoutRedisOwnsEverything(t *testing.T) {
	f := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
	f.Publish("small", "b", busy(time.Now(), 0.5))
	if !f.Mine("small", "b") || f.Sharing() || len(f.Members()) != 1 {
		t.Errorf("mine %v, %s, members %v", f.Mine("small", "b"), f.Level(), f.Members())
	}
	if err := f.Drain(t.Context(), "small", "b", "why", 0); err == nil {
		t.Error("a drain was shared with nobody")
	}
}

func TestAClockThatJumpsAnHourCostsOneTickOfDoubt(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := redistest.Embedded(t, redistest.Background)
				a, b := join(t, o, "a"), join(t, o, "b")
				skew := time.Duration(0)
				step := func() {
					time.Sleep(500 * time.Millisecond)
					r.SetTime(time.Now().Add(skew))
					for _, m := range []*member{a, b} {
						m.Publish("small", "of "+m.self, busy(time.Now(), 0.5))
						m.Place("small", placements(1))
					}
					ticks(t, a, b)
				}
				for range 5 {
					step()
				}
				for _, skew = range []time.Duration{jump, 0} {
					step() // of doubt
					placed := len(a.small.places())
					for range 5 {
						step()
						oneEach(t, owners("small", 50, a, b))
						if at := a.small.reading("of b").At; time.Since(at) > 600*time.Millisecond {
							t.Fatalf("with a clock %v off, the reading is of %v ago", skew, time.Since(at))
						}
					}
					if n := len(a.small.places()) - placed; n != 5 {
						t.Errorf("with a clock %v off, %d of 5 placements were heard", skew, n)
					}
				}
			})
		})
	}
}

func TestAForeignSetOfReplicasIsNotBelieved(t *testing.T) {
	_, o := redistest.Embedded(t, redistest.Background)
	a := join(t, o, "a")
	for i, id := range []string{"", "with space", "ünïcode", string(make([]byte, 65)), "b"} {
		if err := a.redis.ZAdd(t.Context(), keyReplicas, z(float64(time.Now().UnixMilli()-int64(i)), id)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ticks(t, a)
	if !slices.Equal(a.Members(), []string{"a", "b"}) {
		t.Errorf("members %q", a.Members())
	}
}

func TestARandomIDIsOneThatOthersTake(t *testing.T) {
	if f := New(Options{}); !validReplica(f.self) {
		t.Errorf("it is %q", f.self)
	}
}

func TestTheIntervalLeavesRoomForALostHeartbeat(t *testing.T) {
	set := time.Duration(0)
	f := New(Options{Interval: func() time.Duration { return set }})
	for _, c := range []struct{ set, minValue, maxValue time.Duration }{
		{0, defaultInterval, defaultInterval},
		{time.Hour, maxInterval, maxInterval},
		{1, minInterval, minInterval},
	} {
		set = c.set
		for range 100 {
			if d := f.pause(); d < c.minValue || d > c.maxValue {
				t.Fatalf("set to %v, the pause is %v", c.set, d)
			}
		}
	}
	f.setMembers([]string{f.self}, time.Now())
	if d := f.pause(); d < 125*time.Millisecond {
		t.Errorf("alone, the pause is %v", d)
	}
}

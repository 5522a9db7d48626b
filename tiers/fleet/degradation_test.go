package fleet

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// atFour has ticks come four times a second, as they do by default.
func (m *member) atFour() *member {
	m.interval = func() time.Duration { return 250 * time.Millisecond }
	return m
}

func TestSinceIsWhenTheLevelWasEntered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, begun := join(t, o, "a").atFour(), time.Now()
		since := func(want time.Time, shared bool) {
			t.Helper()
			if got := a.Since(); !got.Equal(want) || a.Sharing() != shared {
				t.Errorf("%s since %v, want since %v", a.Level(), got.Sub(begun), want.Sub(begun))
			}
		}
		time.Sleep(time.Second)
		since(begun, false)
		ticks(t, a)
		shared := time.Now()
		time.Sleep(time.Second)
		ticks(t, a)
		r.SetError("LOADING")
		time.Sleep(time.Second)
		ticks(t, a)
		since(shared, true)
		time.Sleep(time.Second)
		since(shared.Add(time.Second+goneAfter), false)
		r.SetError("")
		ticks(t, a)
		since(time.Now(), true)
	})
}

func TestWhoWasKnownStaysKnownWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := redistest.Embedded(t, redistest.Background)
		a, b, c := join(t, o, "a"), join(t, o, "b"), join(t, o, "c")
		if a.Replicas() != 1 {
			t.Errorf("knows %d before it heard of any", a.Replicas())
		}
		a.run(t)
		stopB, stopC := b.run(t), c.run(t)
		time.Sleep(2 * time.Second)
		if a.Replicas() != 3 {
			t.Errorf("knows %d of three", a.Replicas())
		}
		r.SetError("LOADING")
		time.Sleep(5 * time.Minute)
		if a.Replicas() != 3 || len(a.Members()) != 1 {
			t.Errorf("alone, it knows %d and believes in %d", a.Replicas(), len(a.Members()))
		}
		r.SetError("")
		time.Sleep(3 * time.Second)
		r.FlushAll()
		for range 200 {
			if time.Sleep(10 * time.Millisecond); a.Replicas() != 3 {
				t.Fatalf("after a flush it knows %d", a.Replicas())
			}
		}
		stopB()
		stopC()
		time.Sleep(5 * time.Second)
		if a.Replicas() != 3 || len(a.Members()) != 1 {
			t.Errorf("5 s after two left it knows %d and believes in %d", a.Replicas(), len(a.Members()))
		}
		time.Sleep(7 * time.Second)
		if a.Replicas() != 1 {
			t.Errorf("12 s after two left it knows %d", a.Replicas())
		}
	})
}

func TestKnownIsNeverLessThanExpected(t *testing.T) {
	f := New(Options{Expect: 3})
	f.countReplicas(1, time.Now())
	if f.Replicas() != 3 {
		t.Errorf("knows %d of three that are expected", f.Replicas())
	}
	f.countReplicas(5, time.Now())
	if f.Replicas() != 5 {
		t.Errorf("knows %d of five that it heard of", f.Replicas())
	}
}

func TestEveryRefusalMakesALocalReplicaAndIsLoggedOnce(t *testing.T) {
	for _, says := range []string{
		"NOAUTH Authentication required.", "NOPERM this user has no permissions to run the 'evalsha' command",
		"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.", "CLUSTERDOWN The cluster is down", "MISCONF Errors writing to the AOF file", "ERR max number of clients reached",
	} {
		t.Run(strings.Fields(says)[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := redistest.Embedded(t, redistest.Background)
				a, b := join(t, o, "a").atFour(), join(t, o, "b").atFour()
				a.run(t)
				b.run(t)
				time.Sleep(1100 * time.Millisecond) // between two ticks: Redis refuses whole ones
				before := a.log.count("\n")
				r.SetError(says)
				time.Sleep(time.Minute)
				if a.Sharing() || !a.Mine("small", "b0") || a.Replicas() != 2 {
					t.Errorf("%s, knows %d", a.Level(), a.Replicas())
				}
				if n := a.log.count("\n") - before; n != 1 || a.log.count(strings.Fields(says)[0]) != 1 {
					t.Errorf("%d lines, of which %d tell why", n, a.log.count(strings.Fields(says)[0]))
				}
				r.SetError("")
				time.Sleep(1500 * time.Millisecond)
				if !a.Sharing() || len(a.Members()) != 2 || a.log.count("\n")-before != 2 {
					t.Errorf("%s with %v after %d lines", a.Level(), a.Members(), a.log.count("\n")-before)
				}
			})
		})
	}
}

func TestAFullRedisStillTellsDrainsAndPlacements(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := join(t, redistest.Background(s.Addr), "a"), join(t, redistest.Background(s.Addr), "b")
	raw := redis.NewClient(redistest.Background(s.Addr))
	t.Cleanup(func() { _ = raw.Close() })
	redistest.Within(t, 5*time.Second, "both share", func() bool { ticks(t, a, b); return a.Sharing() && b.Sharing() && len(b.Members()) == 2 })
	a.Place("small", placements(1))
	ticks(t, a)
	if err := a.drain(t, "b0", 0); err != nil {
		t.Fatal(err)
	}
	before := b.log.count("\n")
	if err := raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	b.Publish("small", "b1", busy(time.Now(), 0.5))
	b.Place("small", placements(1))
	redistest.Within(t, 5*time.Second, "it hears", func() bool {
		ticks(t, b)
		return b.small.drains()["b0"] == "why" && len(b.small.places()) == 1
	})
	redistest.Within(t, 5*time.Second, "it works alone", func() bool { ticks(t, b); return !b.Sharing() && b.Mine("small", "b0") })
	if n := b.log.count("\n") - before; n != 1 || b.log.count("ZADD: OOM command not allowed") == 0 {
		t.Errorf("%d lines, of which %d tell why", n, b.log.count("ZADD: OOM command not allowed"))
	}
	if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Within(t, 5*time.Second, "both share", func() bool { ticks(t, a, b); return b.Sharing() && len(b.Members()) == 2 })
}

func TestAReadOnlyRedisStillTellsDrainsAndIsDialedAnew(t *testing.T) {
	s := redistest.Start(t)
	a := join(t, redistest.Background(s.Addr), "a")
	raw := redis.NewClient(redistest.Background(s.Addr))
	t.Cleanup(func() { _ = raw.Close() })
	if err := a.drain(t, "b0", 0); err != nil {
		t.Fatal(err)
	}
	ticks(t, a)
	if err := raw.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := raw.Do(t.Context(), "CONFIG", "RESETSTAT").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Within(t, 5*time.Second, "it is told why it does not share, and hears", func() bool {
		ticks(t, a)
		return !a.Sharing() && a.small.drains()["b0"] == "why" && a.log.count("READONLY") > 0
	})
	redistest.Within(t, 5*time.Second, "it dials anew", func() bool {
		ticks(t, a)
		info, err := raw.Info(t.Context(), "stats").Result()
		return err == nil && strings.Contains(info, "total_connections_received:") && !strings.Contains(info, "total_connections_received:0\r")
	})
	if n := a.log.count("READONLY"); n > 1 {
		t.Errorf("%d lines tell why", n)
	}
}

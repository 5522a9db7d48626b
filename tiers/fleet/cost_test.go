package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// cost is what a fleet asked of Redis.
type cost struct {
	ticks, trips, sent, executed int
	busy                         time.Duration // of Redis, in commands
}

// load is a fleet: replicas, pools, and backends over all pools, of which so many pools have
// placements in every tick.
type load struct{ replicas, pools, backends, placing int }

// measure has a fleet tick so often, every reading taken once a tick, and asks Redis what it did.
func measure(t *testing.T, l load, n int) cost {
	t.Helper()
	s := redistest.Start(t)
	raw := redis.NewClient(redistest.Background(s.Addr))
	defer func() { _ = raw.Close() }()
	var fleet []*member
	for i := range l.replicas {
		m := &member{trips: &trips{}}
		c := redis.NewClient(redistest.Background(s.Addr))
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(m.trips)
		var pools []Pool
		for p := range l.pools {
			pools = append(pools, &recordingPool{name: fmt.Sprint("pool", p)})
		}
		var err error
		if m.Fleet, err = New(Options{Redis: c, Replica: fmt.Sprint("replica-", i), Pools: pools}); err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, m)
	}
	round := func() {
		nextMillisecond(t) // what was taken then is news
		for _, m := range fleet {
			for b := range l.backends {
				if pool, id := fmt.Sprint("pool", b%l.pools), fmt.Sprint("backend-", b); m.Mine(pool, id) {
					m.Publish(pool, id, busy(time.Now(), 0.5))
				}
			}
			for p := range l.placing {
				m.Place(fmt.Sprint("pool", p), placements(8))
			}
			m.tick(t.Context())
		}
	}
	round() // the scripts are loaded
	round() // everybody knows everybody
	count := func() (c cost) {
		for _, m := range fleet {
			c.trips += m.trips.count()
			c.sent += int(testutil.ToFloat64(m.metrics.commands))
		}
		return c
	}
	before := count()
	if err := raw.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range n {
		round()
	}
	after := count()
	c := cost{ticks: n * l.replicas, trips: after.trips - before.trips, sent: after.sent - before.sent}
	page, err := raw.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		name, stats, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !ok || name == "cmdstat_info" || name == "cmdstat_config|resetstat" || name == "cmdstat_hello" {
			continue
		}
		calls, rest, _ := strings.Cut(stats, ",usec=")
		usec, _, _ := strings.Cut(rest, ",")
		executed, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		c.executed += executed
		// The time of a script holds that of the commands in it.
		if µs, err := strconv.Atoi(usec); err == nil && (name == "cmdstat_evalsha" || strings.HasPrefix(name, "cmdstat_x")) {
			c.busy += time.Duration(µs) * time.Microsecond
		}
	}
	return c
}

// Every tick here takes each backend's reading anew, as at S = I.
func TestATickCostsWhatThePackageCommentSays(t *testing.T) {
	for _, l := range []load{{3, 2, 8, 0}, {3, 2, 8, 2}, {5, 10, 100, 3}} {
		const n = 10
		c := measure(t, l, n)
		if c.trips != c.ticks {
			t.Errorf("%+v: %d round trips in %d ticks", l, c.trips, c.ticks)
		}
		if want := c.ticks * (2 + 2*l.pools + l.placing); c.sent != want {
			t.Errorf("%+v: %d commands were sent, not %d", l, c.sent, want)
		}
		if want := c.ticks*(10+5*l.pools+l.placing) + 2*l.backends*n; c.executed != want {
			t.Errorf("%+v: %d commands were executed, not %d", l, c.executed, want)
		}
		t.Logf("%+v at 2 ticks/s: %d round trips/s, %d commands sent/s, %d executed/s, Redis busy %v per s", l, 2*l.replicas, 2*c.sent/n, 2*c.executed/n, 2*c.busy/n)
	}
}

func TestAFleetOfFiftyFitsIntoASmallPartOfRedis(t *testing.T) {
	if os.Getenv("FOREGATE_PROOFS") != "long" {
		t.Skip("a long form of what a tick costs: FOREGATE_PROOFS=long")
	}
	const n = 4
	c := measure(t, load{50, 10, 500, 10}, n)
	busy := 2 * c.busy / n // per second, at 2 ticks/s
	t.Logf("50 replicas, 10 pools, 500 backends: %d round trips/s, %d commands sent/s, %d executed/s, Redis busy %v per s", 2*c.trips/n, 2*c.sent/n, 2*c.executed/n, busy)
	if c.sent != c.ticks*32 || c.trips != c.ticks {
		t.Errorf("%d commands and %d round trips in %d ticks", c.sent, c.trips, c.ticks)
	}
}

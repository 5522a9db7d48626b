package usage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// meterAt returns a meter at a fixed time.
func meterAt(o Options, now time.Time) *Meter {
	o.Now = func() time.Time { return now }
	return New(o)
}

// unsure makes calls of the script fail: before they reach Redis, or after Redis has answered.
type unsure struct {
	random *rand.Rand
	faulty bool
}

var errUnsure = errors.New("the connection is lost")

func (u *unsure) DialHook(next redis.DialHook) redis.DialHook { return next }
func (u *unsure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		fate := 9
		if u.faulty && cmd.Name() == "evalsha" {
			fate = u.random.IntN(4)
		}
		switch fate {
		case 0:
			cmd.SetErr(errUnsure)
			return errUnsure
		case 1:
			_ = next(ctx, cmd)
			cmd.SetErr(errUnsure)
			return errUnsure
		}
		return next(ctx, cmd)
	}
}
func (u *unsure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// world is meters that share a Redis, and what they were told.
type world struct {
	t      *testing.T
	client *redis.Client
	faults *unsure
	now    time.Time
	meters []*Meter
	want   Counts
	random *rand.Rand
}

func newWorld(t *testing.T, addr string, meters int) *world {
	w := &world{t: t, now: noon, random: rand.New(rand.NewPCG(3, 4))}
	w.faults = &unsure{random: w.random}
	w.client = redistest.Client(t, redistest.Background(addr))
	w.client.AddHook(w.faults)
	for range meters {
		w.meters = append(w.meters, w.meter())
	}
	return w
}

func (w *world) meter() *Meter {
	return New(Options{Redis: w.client, Now: func() time.Time { return w.now }})
}

// work has every meter count some requests of the last days.
func (w *world) work() {
	for _, m := range w.meters {
		for range w.random.IntN(20) {
			c := some(w.random)
			m.Add(w.now.Add(-time.Duration(w.random.IntN(3))*time.Minute), fmt.Sprint("tenant-", w.random.IntN(5)), fmt.Sprint("r|", w.random.IntN(3)), &c)
			w.want.Add(&c)
		}
	}
}

func (w *world) flush() {
	for _, m := range w.meters {
		m.flush(w.t.Context())
	}
}

// read returns the total of a few days.
func (w *world) read() *Report {
	w.t.Helper()
	r, err := w.meters[0].Read(w.t.Context(), Query{From: DayOf(noon) - 3, To: DayOf(noon) + 10, By: []Dimension{ByTenant, ByDay}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// equal checks that the total is what the meters were told, and that rows add up to it.
func (w *world) equal(when string) {
	w.t.Helper()
	r := w.read()
	var rows Counts
	for _, row := range r.Rows {
		rows.Add(&row.Counts)
	}
	if r.Total.Counts != w.want || rows != w.want || r.Damaged > 0 || r.Scope != ScopeFleet {
		w.t.Fatalf("%s: %+v\nrows %+v\nwant %+v\n%d damaged", when, r.Total.Counts, rows, w.want, r.Damaged)
	}
}

func TestWhatReplicasCountIsTheSumWhateverRepliesAreLost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		w := newWorld(t, addr, 3)
		for round := range 60 {
			w.faults.faulty = true
			w.work()
			w.flush()
			w.now = w.now.Add(time.Duration(w.random.IntN(4)) * time.Hour) // days end, and are settled
			w.work()
			if round%10 == 9 { // a replica is replaced
				old := w.meters[round%3]
				w.faults.faulty = false
				_ = old.stop(t.Context())
				if n := old.ledger.pending(); n > 0 || len(old.ledger.days()) > 0 {
					t.Fatalf("%d requests are left behind", n)
				}
				w.meters[round%3] = w.meter()
			}
			w.faults.faulty = false
			w.flush()
			w.flush() // what was settled may have got rows meanwhile
			w.equal(fmt.Sprint("round ", round))
		}
		for _, m := range w.meters {
			_ = m.stop(t.Context())
		}
		w.equal("at the end")
		names, err := w.client.HKeys(t.Context(), DayOf(noon).key()).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, fieldOpen) {
				t.Errorf("%s was not settled", name)
			}
		}
	})
}

func TestARedisThatComesBackEmptyIsFilledAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	s := redistest.Start(t)
	w := newWorld(t, s.Addr, 3)
	for round := range 2 {
		w.work()
		w.flush()
		w.equal("before it dies")
		s.Kill()
		w.work()
		w.flush()
		if _, err := w.meters[0].Read(t.Context(), Query{From: DayOf(noon), To: DayOf(noon), By: []Dimension{ByTenant}}); !errors.Is(err, ErrAway) {
			t.Fatalf("read from a dead Redis: %v", err)
		}
		s.Restart()
		redistest.Eventually(t, "all replicas reach Redis", func() bool {
			w.flush() // sees what was lost
			return !slices.ContainsFunc(w.meters, func(m *Meter) bool { return m.away })
		})
		w.flush()
		w.equal(fmt.Sprint("after death ", round))
	}
}

func TestAnOlderSnapshotIsBroughtUpToDate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 2)
		w.work()
		w.flush()
		key := DayOf(noon).key()
		old, err := c.HGetAll(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.work()
			w.flush()
		}
		if err := c.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.HSet(t.Context(), key, old).Err(); err != nil {
			t.Fatal(err)
		}
		w.flush()
		w.flush()
		w.equal("after the snapshot")
	})
}

func TestOtherThingsInRedisAreNotCounted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 1)
		w.work()
		w.flush()
		day := DayOf(noon)
		for field, value := range map[string]string{"r|acme|llama-3": "1 2 x", "r|acme": "1", "o|acme|x": "1", "z|a|b": "1", "": "1", "r|a|" + strings.Repeat("b", maxName): "1", "r|a|c": strings.Repeat("9", 30), "p|x": "y"} {
			if err := c.HSet(t.Context(), day.key(), field, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Set(t.Context(), (day - 1).key(), "a string", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if r := w.read(); r.Total.Counts != w.want || r.Damaged != 8 {
			t.Errorf("%d damaged, %+v, want %+v", r.Damaged, r.Total.Counts, w.want)
		}
		for _, number := range []string{"x", "-5", "1e400", "9007199254740990"} { // of the process itself
			if err := c.HSet(t.Context(), day.key(), "p|"+w.meters[0].process, number).Err(); err != nil {
				t.Fatal(err)
			}
			w.work()
			w.flush()
			w.flush()
			w.flush()
			if r := w.read(); r.Total.Counts != w.want && number != "9007199254740990" {
				t.Errorf("after the number %s: %+v, want %+v", number, r.Total.Counts, w.want)
			}
		}
	})
}

func TestAHashThatIsFullTakesNoMoreAndNothingIsLost(t *testing.T) {
	s := redistest.Start(t)
	w := newWorld(t, s.Addr, 1)
	key := DayOf(noon).key()
	fields := make([]any, 0, 2*maxFields)
	for i := range maxFields {
		fields = append(fields, fmt.Sprint("p|", i), "1")
	}
	if err := s.Client.HSet(t.Context(), key, fields...).Err(); err != nil {
		t.Fatal(err)
	}
	w.work()
	w.flush()
	if !w.meters[0].away || w.meters[0].ledger.pending() != w.want.Requests {
		t.Errorf("%d requests wait", w.meters[0].ledger.pending())
	}
	if err := s.Client.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	w.flush()
	w.equal("with room")
}

func TestOldDaysAreDeleted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(t, addr, 1)
		today := DayOf(noon)
		for _, age := range []Day{MaxDays - 1, MaxDays, MaxDays + 30} {
			if err := c.HSet(t.Context(), (today - age).key(), "r|a|b", "1").Err(); err != nil {
				t.Fatal(err)
			}
		}
		w.flush()
		if n := c.Exists(t.Context(), (today - MaxDays + 1).key(), (today - MaxDays).key(), (today - MaxDays - 30).key()).Val(); n != 1 {
			t.Errorf("%d days are left", n)
		}
	})
}

func TestRunWritesWhileItRunsAndTheRestAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := redistest.Embedded(t, redistest.Background)
		client := redis.NewClient(o)
		defer func() { _ = client.Close() }()
		m := New(Options{Redis: client})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		now := time.Now()
		requests := func() int64 {
			r, err := m.Read(t.Context(), Query{From: DayOf(now) - 1, To: DayOf(now) + 1, By: []Dimension{ByTenant}})
			if err != nil {
				t.Fatal(err)
			}
			return r.Total.Requests
		}
		m.Add(now, "acme", "r", &Counts{Requests: 1})
		time.Sleep(flushInterval + time.Second)
		if n := requests(); n != 1 {
			t.Errorf("%d requests after one interval", n)
		}
		m.Add(now, "acme", "r", &Counts{Requests: 1})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := requests(); n != 2 {
			t.Errorf("%d requests after the end", n)
		}
	})
}

func TestAStopWithASilentRedisEndsAndTellsWhatIsLost(t *testing.T) {
	addr := redistest.StartSilent(t)
	dialed := atomic.Int64{}
	o := redistest.Background(addr)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	client := redistest.Client(t, o)
	m := New(Options{Redis: client})
	m.Add(time.Now(), "acme", "r", &Counts{Requests: 3})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := m.Run(ctx); err != nil || dialed.Load() == 0 || m.ledger.pending() != 3 {
		t.Errorf("%v, %d connections, %d requests wait", err, dialed.Load(), m.ledger.pending())
	}
}

package breaker

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// slack is what a busy machine may add to a time that is promised.
const slack = 500 * time.Millisecond

// members is the pool of these tests.
var members = []string{"a", "b", "c", "d"}

// together has every replica of a fleet know the pool, and waits until all have heard of it.
func together(t *testing.T, all []*member, hearing bool) {
	t.Helper()
	for _, m := range all {
		if len(m.States()) == 0 {
			m.Retain("big", members)
		}
	}
	redistest.Within(t, 10*time.Second, "all have heard of every backend", func() bool {
		return !slices.ContainsFunc(all, func(m *member) bool { return m.events.connected.Load() != hearing || !m.shares() })
	})
}

// shares reports whether a replica has the fleet's word on all backends.
func (m *member) shares() bool {
	for _, e := range *m.entries.Load() {
		m.mu.Lock()
		word := e.Facts().Fleet
		m.mu.Unlock()
		if !word.Fresh(time.Now()) {
			return false
		}
	}
	return true
}

func TestATripIsSeenByEightReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	trips := make([]string, 24)
	for i := range trips {
		trips[i] = fmt.Sprint("b", i)
	}
	for _, c := range []struct {
		name string
		args []string
		deaf bool
	}{
		{name: "with words of it"},
		{name: "without", args: []string{"--rename-command", "SUBSCRIBE", ""}, deaf: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := fleetOf(t, redistest.Background(redistest.Start(t, c.args...).Addr), 8, &site{})
			for _, m := range all {
				m.Retain("big", trips)
			}
			together(t, all, !c.deaf)
			var took []time.Duration
			for i, backend := range trips {
				failed := failures(all)
				begun := time.Now()
				all[i%8].calls(backend, 5, errBad)
				for !every(all, backend, "open") && waits(all, failed, begun) {
					time.Sleep(time.Millisecond)
				}
				switch {
				case every(all, backend, "open"):
					took = append(took, time.Since(begun))
				case failures(all) == failed:
					t.Errorf("%s is not known to be open after %v", backend, time.Since(begun))
				}
			}
			slices.Sort(took)
			if len(took) < len(trips)*2/3 { // a round trip that the machine had no time for loses what it told
				t.Fatalf("only %d of %d were seen", len(took), len(trips))
			}
			t.Logf("seen by all: median %v, at most %v", took[len(took)/2], took[len(took)-1])
		})
	}
}

// waits reports whether what was told since begun, when so many round trips had failed, may
// still arrive: for 10 s, or for less if another has failed, and with it what it told.
func waits(all []*member, failed int, begun time.Time) bool {
	since := time.Since(begun)
	return since < 350*time.Millisecond+slack || since < 10*time.Second && failures(all) == failed
}

// failures counts the round trips that failed.
func failures(all []*member) (n int) {
	for _, m := range all {
		n += m.failures()
	}
	return n
}

// opens has a backend fail until all know: what one replica sees is lost with a round trip
// that the machine had no time for, and then the next sees it.
func opens(t *testing.T, all []*member, backend string) {
	t.Helper()
	for _, m := range all {
		failed := failures(all)
		m.calls(backend, 5, errBad)
		for begun := time.Now(); waits(all, failed, begun); time.Sleep(time.Millisecond) {
			if every(all, backend, "open") {
				t.Logf("%s is known to be open after %v", backend, time.Since(begun))
				return
			}
		}
		if failures(all) == failed {
			break
		}
	}
	t.Fatalf("%s is not known to be open", backend)
}

func TestNothingOnARequestsWayGoesToRedis(t *testing.T) {
	m := join(t, redistest.Background(redistest.Start(t).Addr), "alone", &site{}) // and does not run
	m.Retain("big", members)
	for _, backend := range members {
		m.calls(backend, 100, nil)
		m.calls(backend, 10, errBad)
		m.Open("big", backend)
		m.Ramp("big", backend)
	}
	if n := m.cmds.count(); n != 0 {
		t.Errorf("%d commands", n)
	}
}

func TestAFrozenRedisHoldsNoRequestAndIsSharedAgainWhenItThaws(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := fleetOf(t, redistest.Background(s.Addr), 2, &site{})
	together(t, all, true)
	s.Freeze()
	var took []time.Duration
	calls := func(n int, err error) {
		for range n {
			begun := time.Now()
			all[0].calls("a", 1, err)
			took = append(took, time.Since(begun))
		}
	}
	calls(500, nil)
	alone := redistest.Within(t, 10*time.Second, "nobody has the fleet's word", func() bool { calls(1, nil); return !all[0].shares() })
	calls(1000, errBad)
	if !all[0].Open("big", "a") || all[1].Open("big", "a") {
		t.Error("the own breakers do not rule")
	}
	slices.Sort(took)
	usual := took[len(took)*99/100]
	t.Logf("alone after %v; 99%% of the calls took up to %v, the slowest %v", alone, usual, took[len(took)-1])
	if usual > deadline/2 {
		t.Errorf("99%% of the calls took up to %v", usual)
	}
	s.Thaw()
	redistest.Within(t, 10*time.Second, "shared again", func() bool { return all[0].shares() && all[1].shares() })
	if n := all[0].log.count("Redis"); n > 0 {
		t.Errorf("%d lines", n)
	}
}

func TestARedisThatRestartsEmptyIsSharedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := fleetOf(t, redistest.Background(s.Addr), 3, &site{})
	together(t, all, true)
	opens(t, all, "a")
	s.Kill()
	s.Restart()
	redistest.Within(t, 10*time.Second, "closed again", func() bool { return every(all, "a", "closed") })
	together(t, all, true)
	opens(t, all, "b")
}

func TestARealRedisThatForgotTheScriptsIsGivenThemAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	raw := redis.NewClient(redistest.Background(s.Addr))
	t.Cleanup(func() { _ = raw.Close() })
	all := fleetOf(t, redistest.Background(s.Addr), 2, &site{})
	together(t, all, true)
	if err := raw.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	opens(t, all, "a")
	redistest.Within(t, 10*time.Second, "closed again", func() bool { return every(all, "a", "closed") })
	if stats := raw.Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_eval:") {
		t.Error("EVAL was used, which the ACL denies")
	}
}

func TestAKeyOfTheWrongTypeInARealRedisMakesOneBackendLocal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	raw := redis.NewClient(redistest.Background(s.Addr))
	t.Cleanup(func() { _ = raw.Close() })
	all := fleetOf(t, redistest.Background(s.Addr), 2, &site{})
	together(t, all, true)
	k := keyBreaker + "big/a"
	if err := raw.LPush(t.Context(), k, "nonsense").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Within(t, 10*time.Second, "it is said", func() bool { return all[0].log.count("of no use") == 1 && all[1].log.count("of no use") == 1 })
	all[0].calls("a", 5, errBad)
	opens(t, all, "b")
	if !all[0].Open("big", "a") || all[1].Open("big", "a") || all[0].log.count("of no use") != 1 {
		t.Errorf("%+v and %+v, log:\n%s", all[0].state("a"), all[1].state("a"), all[0].log)
	}
	if err := raw.Del(t.Context(), k).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Within(t, 10*time.Second, "it is well", func() bool { return all[0].log.count("well again") == 1 })
}

// switchboard makes connections that can be turned into black holes: what was written is
// taken, and nothing comes.
type switchboard struct {
	mu    sync.Mutex
	conns []*hole
	heard atomic.Int64 // words that were delivered
}

func (b *switchboard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	h := &hole{Conn: c, board: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, h)
	return h, nil
}

// swallow makes black holes of all connections that there are.
func (b *switchboard) swallow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.deep.Store(true)
	}
}

type hole struct {
	net.Conn
	board *switchboard
	deep  atomic.Bool
}

func (c *hole) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err == nil && c.deep.Load() {
			continue
		}
		if bytes.Contains(b[:n], []byte("a word of the test's")) {
			c.board.heard.Add(1)
		}
		return n, err
	}
}

func TestASubscriptionThatIsDeafIsMadeAnewWithinTwoSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	s := redistest.Start(t)
	raw := redis.NewClient(redistest.Background(s.Addr))
	t.Cleanup(func() { _ = raw.Close() })
	board := &switchboard{}
	o := redistest.Background(s.Addr)
	o.Dialer = board.dial
	all := fleetOf(t, o, 1, &site{})
	together(t, all, true)
	for range 3 {
		board.swallow()
		was := board.heard.Load()
		took := redistest.Within(t, 2*time.Second+slack, "a word arrives", func() bool {
			if err := raw.Publish(t.Context(), channelEvents, "a word of the test's").Err(); err != nil {
				t.Fatal(err)
			}
			return board.heard.Load() > was
		})
		t.Logf("heard again after %v", took)
		redistest.Within(t, 5*time.Second, "it hears its own beat", func() bool { return all[0].events.connected.Load() && all[0].shares() })
	}
}

func TestWhoeverIsCutOffFromRedisIsAloneAndTheOthersShare(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	board := &switchboard{}
	o := redistest.Background(s.Addr)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if board.heard.Load() > 0 {
			return nil, syscall.ECONNREFUSED
		}
		return board.dial(ctx, network, addr)
	}
	lonely := join(t, o, "lonely", &site{})
	lonely.run(t)
	all := fleetOf(t, redistest.Background(s.Addr), 2, &site{})
	together(t, append(slices.Clone(all), lonely), true)
	board.heard.Add(1)
	board.swallow()
	t.Logf("alone after %v", redistest.Within(t, 10*time.Second, "it is alone", func() bool { return !lonely.shares() }))
	lonely.calls("b", 6, errBad)
	opens(t, all, "a")
	if lonely.Open("big", "a") || !lonely.Open("big", "b") || all[0].Open("big", "b") || all[1].Open("big", "b") {
		t.Error(fmt.Sprint("lonely: ", lonely.States(), " another: ", all[0].States()))
	}
	board.heard.Store(0)
	redistest.Within(t, 10*time.Second, "it shares again", lonely.shares)
}

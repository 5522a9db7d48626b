package breaker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/internal/redistest"
)

// long asks for the long form of tests over random histories.
var long = os.Getenv("BREAKER_LONG") != ""

// TestRandomHistoriesOfAFleetKeepTheInvariants drives the scripts as eight replicas might,
// with results that come late, replicas that die, a clock of Redis' that jumps by an hour,
// lost keys and garbage, and checks every answer against what must always hold: 100,000
// operations, or a million with BREAKER_LONG=1.
func TestRandomHistoriesOfAFleetKeepTheInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	histories, operations := 10, 10_000
	switch {
	case long:
		histories = 100
	case raced, testing.Short():
		histories = 2
	}
	first := rand.Uint64() >> 32
	for i := range histories {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			h := newFleetHistory(t, seed)
			for h.step = range operations {
				h.move()
			}
			h.heal()
			t.Logf("seed %d: %d granted, %d closed, %d opened, %d late", seed, h.granted, h.closings, h.openings, h.late)
			if h.granted == 0 || h.closings == 0 || h.openings == 0 || h.late == 0 {
				t.Errorf("seed %d: nothing was tried", seed)
			}
		})
	}
}

const replicasOfHistory = 8

// fleetHistory is one history, and what is known of the breaker by the answers.
type fleetHistory struct {
	t     *testing.T
	seed  uint64
	step  int
	rng   *rand.Rand
	mini  *miniredis.Miniredis
	link  *link
	redis *redis.Client
	clock time.Time
	k     Key

	tokens [replicasOfHistory][]string // that a replica may still tell a result of
	given  int

	phase     State
	known     bool      // phase is what it must be
	holder    string    // of the lease, "" is unknown or nobody
	leased    time.Time // until; zero is unknown
	openUntil time.Time // zero is unknown
	successes int
	wild      bool // garbage was written since the last transition

	granted, closings, openings, late int
}

func newFleetHistory(t *testing.T, seed uint64) *fleetHistory {
	mini, o := redistest.Embedded(t, redistest.Background)
	o.PoolSize = 1
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	h := &fleetHistory{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), mini: mini,
		redis: client, link: newLink(client, prometheus.NewCounter(prometheus.CounterOpts{Name: "e"})),
		clock: time.Unix(1_800_000_000, 0), k: Key{Pool: "big", Backend: "a"}, known: true,
	}
	mini.SetTime(h.clock)
	return h
}

func (h *fleetHistory) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("seed %d, step %d: %s", h.seed, h.step, fmt.Sprintf(format, args...))
}

func (h *fleetHistory) pass(d time.Duration) {
	h.clock = h.clock.Add(d)
	h.mini.SetTime(h.clock)
}

// ask runs a script that returns a number.
func (h *fleetHistory) ask(run *script.Script, args ...any) int64 {
	h.t.Helper()
	got, err := h.link.one(h.t.Context(), run, h.k, args...)
	if err != nil {
		h.fail("%v", err)
	}
	return got
}

// sees runs the script sync, and returns its numbers.
func (h *fleetHistory) sees(args ...any) (got []int64) {
	h.t.Helper()
	pipe := h.link.scripts.Pipeline()
	cmd := queue(h.t.Context(), pipe, syncScript, h.k, args...)
	if err := h.link.send(h.t.Context(), pipe); err != nil {
		h.fail("%v", err)
	}
	for _, n := range cmd.Val().([]any)[:4] {
		got = append(got, n.(int64))
	}
	return got
}

func (h *fleetHistory) move() {
	who := h.rng.IntN(replicasOfHistory)
	switch p := h.rng.IntN(1000); {
	case p < 300:
		h.sync(who)
	case p < 450:
		h.acquire(who)
	case p < 650:
		h.result(who)
	case p < 980:
		h.pass(time.Duration(h.rng.ExpFloat64()*800) * time.Millisecond)
	case p < 988: // it dies, and with it its leases
		h.tokens[who] = nil
	case p < 991:
		h.pass([]time.Duration{-time.Hour, time.Hour}[h.rng.IntN(2)])
		h.lost() // an hour later the key has ended
	case p < 994:
		h.mini.FlushAll()
		h.lost()
		h.phase, h.known = Closed, true
	default:
		h.garbage()
	}
}

// lost is after the hash is gone, or changed by others.
func (h *fleetHistory) lost() {
	h.known, h.holder, h.leased, h.openUntil = false, "", time.Time{}, time.Time{}
}

func (h *fleetHistory) garbage() {
	fields := []string{"st", "ou", "n", "pt", "pu", "ps", "ur", "t:1", "f:99999999999999999999", "u:", fmt.Sprint("t:", h.clock.Unix()), fmt.Sprint("f:", h.clock.Unix()), "banana"}
	values := []string{"banana", "NaN", "-nan", "1e999", "-3", "", "0.5", "9007199254740991", "9007199254740993", "1", "2", "3", "0x10", "inf", "-1e308", "99999999"}
	for range 1 + h.rng.IntN(3) {
		h.mini.HSet(redisKey(h.k), fields[h.rng.IntN(len(fields))], values[h.rng.IntN(len(values))])
	}
	h.lost()
	h.wild = true
}

func (h *fleetHistory) sync(int) {
	finished := max(h.rng.IntN(14)-4, 0)
	faults := 0
	if finished > 0 && h.rng.IntN(2) == 0 {
		faults = h.rng.IntN(finished + 1)
	}
	back := max(h.rng.IntN(40)-20, 0)
	before := h.successes10()
	got := h.sees(finished, faults, faults/2, 1000, 10, 5, 50, 2000, 30000, h.rng.IntN(201)-100, back)
	if !h.wild && got[0] == 0 {
		if want := max(before-back, 0) + finished - faults; h.successes10() != want {
			h.fail("%d successes, %d more, %d taken back: %d are left", before, finished-faults, back, h.successes10())
		}
	}
	state, left, leased := State(got[0]), got[1], got[2]
	most := int64(33_000)
	if h.wild || h.openUntil.IsZero() {
		most = 60_000
	}
	if left < 0 || left > most || state != Open && left != 0 || leased < 0 || leased > 60_000 {
		h.fail("%v", got)
	}
	if h.known && state != h.phase && (h.phase != Closed || state != Open || faults == 0) {
		h.fail("it was %v, and is %v: %v", h.phase, state, got)
	}
	if h.known && h.phase == Closed && state == Open {
		h.opened(left)
	}
	if !h.openUntil.IsZero() && state == Open && left != max(h.openUntil.Sub(h.clock).Milliseconds(), 0) {
		h.fail("open for %d ms, want %v", left, h.openUntil.Sub(h.clock))
	}
	h.phase, h.known = state, true
}

// successes10 are those that Redis knows of, of the last ten seconds.
func (h *fleetHistory) successes10() (n int) {
	for field, v := range h.redis.HGetAll(h.t.Context(), redisKey(h.k)).Val() {
		at, err := strconv.ParseInt(field[min(2, len(field)):], 10, 64)
		if err != nil || at <= h.clock.Unix()-Buckets || at > h.clock.Unix() {
			continue
		}
		count, _ := strconv.Atoi(v)
		switch field[:2] {
		case "t:":
			n += count
		case "f:":
			n -= count
		}
	}
	return n
}

func (h *fleetHistory) opened(ms int64) {
	h.openings++
	h.openUntil, h.wild = h.clock.Add(time.Duration(ms)*time.Millisecond), false
	h.holder, h.leased = "", time.Time{}
}

func (h *fleetHistory) acquire(who int) {
	h.given++
	token := fmt.Sprint(who, "-", h.given)
	got := h.ask(acquireScript, token, lease.Milliseconds(), maxFleetOpen.Milliseconds(), "0")
	if got == 0 {
		if h.known && (h.phase == Open && !h.openUntil.IsZero() && !h.clock.Before(h.openUntil) ||
			h.phase == HalfOpen && !h.leased.IsZero() && !h.clock.Before(h.leased)) {
			h.fail("a due breaker's lease was refused")
		}
		return
	}
	switch {
	case h.known && h.phase == Closed:
		h.fail("a lease of a closed breaker")
	case !h.leased.IsZero() && h.clock.Before(h.leased):
		h.fail("a second lease, %v before the end of the first", h.leased.Sub(h.clock))
	case h.known && h.phase == Open && h.clock.Before(h.openUntil):
		h.fail("a lease %v too early", h.openUntil.Sub(h.clock))
	}
	h.granted++
	h.phase, h.known, h.wild = HalfOpen, true, false
	h.holder, h.leased, h.openUntil, h.successes = token, h.clock.Add(lease), time.Time{}, 0
	h.tokens[who] = append(h.tokens[who], token)
}

func (h *fleetHistory) result(who int) {
	if holder, _, _ := strings.Cut(h.holder, "-"); holder != "" && h.rng.IntN(2) == 0 {
		who, _ = strconv.Atoi(holder)
	}
	n := len(h.tokens[who])
	if n == 0 {
		return
	}
	i := max(h.rng.IntN(2*n), n) - n // the newest as often as any other
	i = n - 1 - i
	token := h.tokens[who][i]
	well := h.rng.IntN(8) > 0
	before, _ := h.redis.HGetAll(h.t.Context(), redisKey(h.k)).Result()
	got := h.ask(resultScript, token, flag(well), successesClose, 2000, 30000, lease.Milliseconds(), h.rng.IntN(201)-100, "0")
	if h.rng.IntN(3) > 0 { // else it may be told again
		h.tokens[who] = append(h.tokens[who][:i], h.tokens[who][i+1:]...)
	}
	if got == -1 {
		h.late++
		after, _ := h.redis.HGetAll(h.t.Context(), redisKey(h.k)).Result()
		if diff := cmp.Diff(before, after); diff != "" {
			h.fail("a late result changed something: %s", diff)
		}
		if h.holder == token {
			h.fail("the holder is not believed")
		}
		return
	}
	if h.holder != "" && token != h.holder {
		h.fail("%s is believed, and %s has the lease", token, h.holder)
	}
	switch {
	case !well && got == 2:
		h.phase = Open
		h.opened(h.sees(0, 0, 0, 1000, 10, 5, 50, 2000, 30000, 0, 0)[1])
		if left := h.openUntil.Sub(h.clock); left < 1800*time.Millisecond || left > 33*time.Second {
			h.fail("open for %v", left)
		}
	case well && got == 1:
		h.successes++
		h.leased = h.clock.Add(lease)
	case well && got == 0:
		if h.holder != "" && !h.wild && h.successes+1 < successesClose {
			h.fail("closed after %d successes", h.successes+1)
		}
		h.closings++
		h.phase, h.holder, h.leased = Closed, "", time.Time{}
	default:
		h.fail("%v for %v", got, well)
	}
}

// heal: whatever happened, a backend that is well is back in a bounded time.
func (h *fleetHistory) heal() {
	for range 100 {
		got := h.sees(0, 0, 0, 1000, 10, 5, 50, 2000, 30000, 0, 0)
		if State(got[0]) == Closed {
			return
		}
		if h.ask(acquireScript, "healer", lease.Milliseconds(), maxFleetOpen.Milliseconds()) == 1 {
			for range successesClose {
				h.ask(resultScript, "healer", "1", successesClose, 2000, 30000, lease.Milliseconds(), 0, "0")
			}
		}
		h.pass(time.Second)
	}
	h.fail("open after 100 s of health")
}

// FuzzView: whatever Redis says, a view is closed or ends.
func FuzzView(f *testing.F) {
	f.Add(int64(2), int64(2000), int64(0), int64(1), "", 5)
	f.Add(int64(-1), int64(-1), int64(1<<62), int64(7), "WRONGTYPE", 3)
	f.Fuzz(func(t *testing.T, state, open, leased, cut int64, wrong string, n int) {
		reply := []any{state, open, leased, cut, wrong}
		now := time.Unix(1_800_000_000, 0)
		cmd := redis.NewCmdResult(reply[:min(max(n, 0), len(reply))], nil)
		v, err := viewOf(cmd, now)
		if err != nil {
			return
		}
		if left := v.Until.Sub(now); left < 0 || left > 2*maxFleetOpen || !v.At.Equal(now) {
			t.Errorf("%+v", v)
		}
		if until := v.Refuses(); until.Sub(now) > 2*maxFleetOpen {
			t.Errorf("shut until %v", until)
		}
		if v.State == Closed && !v.Refuses().IsZero() {
			t.Error("closed, and shut")
		}
	})
}

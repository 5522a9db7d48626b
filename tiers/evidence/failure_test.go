package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

func redisZ(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// shut fails unless nothing can be opened.
func (r *replica) shut() {
	r.t.Helper()
	_, err := r.Open(r.t.Context(), risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: "away", Score: 1})
	if !errors.Is(err, ErrAway) {
		r.t.Errorf("open: %v", err)
	}
}

// away fails unless nothing can be opened or closed.
func (r *replica) away() {
	r.t.Helper()
	r.shut()
	if err := r.Close(r.t.Context(), chat, "away", false); !errors.Is(err, ErrAway) {
		r.t.Errorf("close: %v", err)
	}
}

func TestWhileRedisIsDeadViewsHoldUntilTheyAreStale(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	r.tick(t.Context())
	was := r.View(chat)
	s.Kill()
	r.later(10 * time.Second)
	r.tick(t.Context())
	r.away()
	r.tick(t.Context())
	if v := r.View(chat); v != was {
		t.Errorf("after ten seconds %+v, not %+v", v, was)
	}
	r.later(51 * time.Second)
	v := r.View(chat)
	if v.Serves() || v.Decide(chat, risk.Sampling{Rate: 1}, 0).Threshold < 1e9 || v.Seen != was.Seen || v.Version != was.Version {
		t.Errorf("after a minute %+v", v)
	}
	if n := r.log.count("Redis does not answer"); n != 1 {
		t.Errorf("said %d times that Redis is away", n)
	}
	if r.counted(labelAway) != 2 {
		t.Errorf("%d audits are counted as away", r.counted(labelAway))
	}
	// It comes back, and knows nothing.
	r.tick(t.Context())
	s.Restart()
	redistest.Within(t, 20*time.Second, "Redis is back", func() bool {
		r.tick(t.Context())
		return r.View(chat).Version == 0
	})
	if v := r.View(chat); v.Serves() || v.Version != 0 {
		t.Errorf("of an empty Redis: %+v", v)
	}
	redistest.Within(t, 20*time.Second, "it takes closes", func() bool { return r.Close(t.Context(), chat, "of-before", false) == nil })
	r.certify() // the scripts are loaded anew
}

func TestARedisThatIsRestoredFromEarlierKeepsThePromise(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	for i := range 10 {
		r.open(fmt.Sprint("kept-", i), 1)
	}
	if err := r.raw.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(filepath.Join(s.Dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	was := r.state()
	for i := range 5 {
		r.open(fmt.Sprint("lost-", i), 1)
		r.close(fmt.Sprint("kept-", i), false)
	}
	s.Kill()
	if err := os.WriteFile(filepath.Join(s.Dir, "dump.rdb"), snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	redistest.Within(t, 20*time.Second, "Redis is back", func() bool { return r.raw.Ping(t.Context()).Err() == nil })
	if d := differ(was.State, r.state().State); d != "" {
		t.Fatalf("it is not as it was:\n%s", d)
	}
	// Audits that it does not know change nothing, those that it thinks are open may be closed
	// once more, and those of which the close was lost stay bad.
	for i := range 5 {
		r.close(fmt.Sprint("lost-", i), false)
		r.close(fmt.Sprint("lost-", i), true)
	}
	if d := differ(was.State, r.state().State); d != "" {
		t.Fatalf("unknown audits changed it:\n%s", d)
	}
	for i := 3; i < 10; i++ {
		r.close(fmt.Sprint("kept-", i), false)
	}
	e := r.state().Epochs[0]
	if e.O[0] != 3 || e.K[0] != was.Epochs[0].K[0]-7 || e.N[0] != was.Epochs[0].N[0] {
		t.Errorf("%d open, %d bad, %d audits", e.O[0], e.K[0], e.N[0])
	}
	sound(t, r.state().State)
}

func TestAReplicaThatIsPromotedKnowsNoMoreThanItWasTold(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t)
	promoted := redistest.Start(t, "--replicaof", "127.0.0.1", old.Port())
	r, next := join(t, old.Addr), join(t, promoted.Addr)
	r.certify()
	r.open("told", 1)
	redistest.Within(t, 20*time.Second, "the replica follows", func() bool {
		w, err := next.whole(t.Context(), chat)
		return err == nil && !w.missing && differ(r.state().State, w.State) == ""
	})
	if err := next.Close(t.Context(), chat, "told", false); !errors.Is(err, ErrAway) {
		t.Errorf("a replica takes writes: %v", err)
	}
	was := next.state()
	promoted.Freeze() // it hears no more
	r.open("untold", 1)
	r.close("told", false)
	old.Kill()
	promoted.Thaw()
	redistest.Within(t, 20*time.Second, "the replica is promoted", func() bool { return next.raw.ReplicaOf(t.Context(), "NO", "ONE").Err() == nil })
	// It may have been told all that was in its buffers, or nothing of it: both are sound.
	next.close("untold", false)
	next.close("untold", true)
	next.close("told", false)
	w := next.state()
	sound(t, w.State)
	e, before := w.Epochs[0], was.Epochs[0]
	if e.N[0] < before.N[0] || e.N[0] > before.N[0]+1 || e.O[0] != 0 || e.K[0] != before.K[0]-1 {
		t.Errorf("%d open, %d bad, %d audits after %d, %d, %d", e.O[0], e.K[0], e.N[0], before.O[0], before.K[0], before.N[0])
	}
	next.audit(5, 0, 1)
}

func TestFieldsThatAreNotOursAreNothing(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	ctx, key := t.Context(), keyRisk+chat.String()
	n19 := strings.TrimSpace(strings.Repeat("5 ", maxGrid))
	r.certify()
	certified := r.raw.Dump(ctx, key).Val()
	for field, values := range map[string][]string{
		"version":  {"banana", "-1", "1e3", "NaN", "0x10", "99999999999999999999", " 1", ""},
		"alarm":    {"-1", "x"},
		"grid":     {"1 2 3", "nan", "1 1", "inf", strings.Repeat("1 ", 100), ""},
		"scores":   {"1", "x", strings.Repeat("1 ", 100000)},
		"eps":      {"x", "nan", "1 2"},
		"op":       {"17", "-1", "16", "1.5"},
		"drift":    {"1 2", "1 2 nan", "1 2 3 4"},
		"hopeless": {"2", "yes"},
		"born":     {"0", "x"},
		"e1":       {"1", "1 2 20", "1 2 3 4", "0 1 1", "x y z", ""},
		"n1":       {"1 2 3", n19 + " 5", strings.Replace(n19, "5", "-5", 1), strings.Replace(n19, "5", "x", 1), ""},
		"k1":       {strings.Replace(n19, "5", "9007", 1), "100000 " + n19[2:]},
		"o1":       {strings.Replace(n19, "5", "9007", 1)},
		"e2":       {"1 1 1", "9 1 1"},
	} {
		for _, v := range values {
			if err := r.raw.RestoreReplace(ctx, key, 0, certified).Err(); err != nil {
				t.Fatal(err)
			}
			if r.tick(ctx); !r.View(chat).Serves() {
				t.Fatal("what was certified is not served")
			}
			if err := r.raw.HSet(ctx, key, field, v).Err(); err != nil {
				t.Fatal(err)
			}
			r.tick(ctx)
			if v != "" && (field == "version" || field == "grid" || field == "op" && v != "16") && r.View(chat).Serves() {
				t.Errorf("%s %.40q is served by", field, v)
			}
			r.close("unknown", false)
			w := r.state()
			sound(t, w.State)
			if w.Op != 0 || w.Version != 0 || len(w.Epochs) != 0 {
				t.Errorf("%s %.40q is believed: %+v", field, v, w.State)
			}
		}
	}
	if r.log.count("begun anew") != 1 {
		t.Error("it is not said, or every time")
	}
}

func TestARedisWithoutMemoryBooksNothingAndLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	r.open("under-way", 1)
	was := r.state()
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	r.shut()
	if err := r.Close(t.Context(), chat, "under-way", true); !errors.Is(err, ErrAway) {
		t.Errorf("close: %v", err)
	}
	if d := differ(was.State, r.state().State); d != "" {
		t.Errorf("changed without memory:\n%s", d)
	}
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.close("under-way", true)
	if e := r.state().Epochs[0]; e.O[0] != 0 || e.K[0] != was.Epochs[0].K[0] {
		t.Errorf("%+v", e)
	}
}

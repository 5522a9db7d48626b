package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	r.later(calm)
	r.tick(t.Context())
	if n := r.log.count("answers again"); n != 1 {
		t.Errorf("said %d times that Redis is back", n)
	}
	if n := r.log.count("level"); n != 2 {
		t.Errorf("%d lines were logged", n)
	}
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

func TestASlowRedisHoldsNobodyForLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	was := r.state()
	if err := r.raw.Do(t.Context(), "CLIENT", "PAUSE", "2000", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	brisk := joinBy(t, redistest.Background(s.Addr))
	began := time.Now()
	_, err := brisk.Open(t.Context(), risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: "slow", Score: 1})
	if took := time.Since(began); !errors.Is(err, ErrAway) || took > callTime+200*time.Millisecond {
		t.Errorf("open: %v after %v", err, took)
	}
	if err := brisk.Close(t.Context(), chat, "slow", false); !errors.Is(err, ErrAway) {
		t.Errorf("close: %v", err)
	}
	redistest.Within(t, 20*time.Second, "Redis is back", func() bool { return r.raw.Ping(t.Context()).Err() == nil })
	// What was sent may have been done when Redis woke: opened it is bad, closed it is not.
	w := r.state()
	sound(t, w.State)
	e, before := w.Epochs[0], was.Epochs[0]
	if more := e.N[0] - before.N[0]; more < 0 || more > 1 || e.K[0] != before.K[0]+e.O[0] {
		t.Errorf("%d more audits, %d more bad, %d open", more, e.K[0]-before.K[0], e.O[0])
	}
	r.audit(5, 0, 1)
}

func TestACallerThatLeavesCutsNothing(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.teach()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fate, err := r.Open(ctx, risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: "x", Score: 1})
	if err != nil || fate != risk.Opened {
		t.Errorf("open: %s, %v", fate, err)
	}
	if err := r.Close(ctx, chat, "x", false); err != nil {
		t.Error(err)
	}
}

func TestAKeyOfAnotherKindIsRefusedAndServesNothing(t *testing.T) {
	ctx := t.Context()
	for name, key := range map[string]string{"the state": keyRisk + chat.String(), "the index": keyIndex} {
		t.Run(name, func(t *testing.T) {
			r := join(t, redistest.Start(t).Addr)
			r.raw.Set(ctx, key, "banana", 0)
			r.tick(ctx)
			r.shut()
			r.shut()
			if v := r.View(chat); v.Serves() || v.Version != 0 {
				t.Errorf("%+v", v)
			}
			if n := r.log.count("refuses"); n != 1 {
				t.Errorf("said %d times", n)
			}
			if got := r.raw.Get(ctx, key).Val(); got != "banana" {
				t.Errorf("it is %q now", got)
			}
			if _, err := r.Import(ctx, chat, nil); err == nil {
				t.Error("imported")
			}
			r.raw.Del(ctx, key)
			r.certify()
			r.later(2 * quiet)
			r.tick(ctx)
			if n := r.log.count("well again"); n != 1 {
				t.Errorf("said %d times that it is over", n)
			}
		})
	}
	t.Run("the log", func(t *testing.T) {
		r := join(t, redistest.Start(t).Addr)
		r.raw.Set(ctx, keyLog, "banana", 0)
		r.certify() // audits go on
		if n := r.log.count("the log: WRONGTYPE"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if err := r.Log(ctx, func(LogEntry) error { return nil }); !errors.Is(err, ErrAway) {
			t.Errorf("the log: %v", err)
		}
	})
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
		"prior":    {"x"},
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

func TestATicketThatIsNotOursClosesNothing(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.certify()
	ctx, key := t.Context(), keyRisk+chat.String()
	for i, v := range []string{"", "x", "1 3", "0 3 1 5 1", "3 1 1 5 1", "1 99 1 5 1", "1 3 2 5 1", "1 3 1 5 1", "1 3 1 5 1 2 3 4", "-1 3 1 5 1", strings.Repeat("1 ", 1<<16)} {
		was := r.state()
		ticket := fmt.Sprint("forged-", i)
		r.raw.HSet(ctx, key, "t:"+ticket, v)
		r.close(ticket, false)
		if d := differ(was.State, r.state().State); d != "" {
			t.Errorf("%.40q:\n%s", v, d)
		}
		if r.raw.HExists(ctx, key, "t:"+ticket).Val() {
			t.Errorf("%.40q stays", v)
		}
	}
	// More fields than ours can be: begun anew.
	var flood []any
	for i := range 5000 {
		flood = append(flood, fmt.Sprint("t:flood-", i), "1 3 1 5 1")
	}
	r.raw.HSet(ctx, key, flood...)
	r.open("one", 1)
	if n := r.raw.HLen(ctx, key).Val(); int(n) > len(names)+1 {
		t.Errorf("%d fields", n)
	}
	if r.View(chat).Serves() {
		t.Error("what somebody floods is served by")
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

func TestManyReplicasThroughARestartStaySound(t *testing.T) {
	s := redistest.Start(t)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 3 {
		r := join(t, s.Addr)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				ticket := fmt.Sprintf("r%d-%d", n, i)
				if _, err := r.Open(ctx, risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: ticket, Score: float64(i%200) / 200}); err != nil && !errors.Is(err, ErrAway) {
					t.Errorf("open: %v", err)
				}
				if err := r.Close(ctx, chat, ticket, i%50 == 0); err != nil && !errors.Is(err, ErrAway) {
					t.Errorf("close: %v", err)
				}
			}
		})
	}
	watch := join(t, s.Addr)
	grown := func() bool {
		w, err := watch.whole(ctx, chat)
		if err != nil {
			return false
		}
		sound(t, w.State)
		return len(w.Epochs) > 0 && w.Epochs[0].N[0] > 20
	}
	redistest.Within(t, 20*time.Second, "audits are booked", grown)
	s.Kill()
	s.Restart()
	redistest.Within(t, 20*time.Second, "audits are booked again", grown)
	cancel()
	wg.Wait()
}

package evidence

import (
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
	_ = r.Tick(t.Context())
	was := r.View(chat)
	s.Kill()
	r.later(10 * time.Second)
	_ = r.Tick(t.Context())
	r.away()
	_ = r.Tick(t.Context())
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
	_ = r.Tick(t.Context())
	s.Restart()
	redistest.Within(t, 20*time.Second, "Redis is back", func() bool {
		return r.Tick(t.Context()) == nil && r.View(chat).Version == 0
	})
	if v := r.View(chat); v.Serves() || v.Version != 0 {
		t.Errorf("of an empty Redis: %+v", v)
	}
	redistest.Within(t, 20*time.Second, "it takes closes", func() bool { return r.Close(t.Context(), chat, "of-before", false) == nil })
	r.certify()
}

// dump saves what Redis has, and returns a function that kills it and starts it with that.
func dump(t *testing.T, s *redistest.Server, r *replica) (restore func()) {
	t.Helper()
	file := filepath.Join(s.Dir, "dump.rdb")
	if err := r.raw.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		s.Kill()
		if err := os.WriteFile(file, old, 0o600); err != nil {
			t.Fatal(err)
		}
		s.Restart()
		redistest.Within(t, 20*time.Second, "Redis is back", func() bool { return r.raw.Ping(t.Context()).Err() == nil })
	}
}

// TestCertificatesEndWhenRedisLosesData loses data in each way while three replicas serve, and lets them certify anew.
func TestCertificatesEndWhenRedisLosesData(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *redistest.Server, r *replica) func(){
		"flushed": func(t *testing.T, _ *redistest.Server, r *replica) func() {
			return func() { r.raw.FlushAll(t.Context()) }
		},
		"restored from a dump": dump,
		"the log alone is gone": func(t *testing.T, _ *redistest.Server, r *replica) func() {
			return func() { r.raw.Del(t.Context(), keyLog+chat.Route) }
		},
		"killed, and back empty": func(_ *testing.T, s *redistest.Server, _ *replica) func() { return func() { s.Kill(); s.Restart() } },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			replicas := []*replica{join(t, s.Addr), join(t, s.Addr), join(t, s.Addr)}
			r := replicas[0]
			r.certify()
			if done, err := r.WriteRefit(t.Context(), chat.Route, "", "a record"); !done || err != nil {
				t.Fatal(done, err)
			}
			lost := lose(t, s, r)
			r.open("under-way", 1) // what a dump does not have
			for _, r := range replicas {
				r.fold()
			}
			lost()
			for i, r := range replicas {
				redistest.Within(t, 20*time.Second, "it reads the log", func() bool { return r.Tick(t.Context()) == nil })
				if v := r.View(chat); v.Serves() || v.Version != 0 || v.New || v.Warmup.Began != 0 {
					t.Errorf("replica %d: %+v", i, v)
				}
				if f := r.fold(); f.Record != "a record" {
					t.Errorf("replica %d: the record of the refits is %q", i, f.Record)
				}
			}
			if n := len(r.raw.XRange(t.Context(), keyLog+chat.Route, "-", "+").Val()); name != "restored from a dump" && n != 1 {
				t.Errorf("%d entries: evidence was begun more than once", n)
			}
			r.close("under-way", false)
			r.certify()
			for i, r := range replicas {
				if r.fold(); !r.View(chat).Serves() {
					t.Errorf("replica %d serves nothing", i)
				}
			}
			if late := join(t, s.Addr); late.Tick(t.Context()) != nil || !late.View(chat).Serves() {
				t.Error("a new replica serves nothing")
			}
		})
	}
}

func TestAHistoryWithoutItsBeginningIsNone(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, r *replica){
		"trimmed, without a snapshot": func(t *testing.T, r *replica) { r.raw.XTrimMaxLen(t.Context(), keyLog+chat.Route, 10) },
		"a foreign snapshot": func(t *testing.T, r *replica) {
			r.raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keySnapshot + chat.Route, ID: r.fold().Last.String(), Values: []string{"s", "{}"}})
		},
		"a snapshot with another bit": func(t *testing.T, r *replica) {
			if err := r.Store.log.Save(t.Context(), chat.Route, r.fold()); err != nil {
				t.Fatal(err)
			}
			saved := r.raw.XRange(t.Context(), keySnapshot+chat.Route, "-", "+").Val()[0]
			saved.Values["s"] = strings.Replace(saved.Values["s"].(string), `"Op":`, `"Op":1`, 1)
			r.raw.Del(t.Context(), keySnapshot+chat.Route)
			r.raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keySnapshot + chat.Route, ID: saved.ID, Values: saved.Values})
		},
		"a snapshot of no state": func(t *testing.T, r *replica) {
			f := r.fold()
			was := f.Kinds
			f.Kinds = nil
			if err := r.Store.log.Save(t.Context(), chat.Route, f); err != nil {
				t.Fatal(err)
			}
			f.Kinds = was
		},
		"a snapshot of the future": func(t *testing.T, r *replica) {
			r.raw.XAdd(t.Context(), &redis.XAddArgs{Stream: keySnapshot + chat.Route, ID: "9999999999999-0", Values: []string{"s", "{}"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := join(t, redistest.Start(t).Addr)
			r.certify()
			spoil(t, r)
			late := join(t, r.raw.Options().Addr)
			if err := late.Tick(t.Context()); err != nil || late.View(chat).Serves() || late.View(chat).New {
				t.Errorf("%v, %+v", err, late.View(chat))
			}
			if r.fold(); r.View(chat).Serves() {
				t.Error("the others have not heard of it")
			}
			r.certify()
			if late.fold(); !late.View(chat).Serves() {
				t.Error("it never serves again")
			}
		})
	}
}

func TestASnapshotThatIsTooLongEndsNothingForOtherRoutes(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.certify()
	r.fold().Record = strings.Repeat("x", maxSnapshot)
	if err := r.Store.log.Save(t.Context(), chat.Route, r.fold()); err == nil || isAway(r.failed(err)) {
		t.Errorf("Redis is away: %v", err)
	}
}

func TestRoutesThatOthersListAreBounded(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	for i := range 2 * maxRoutes {
		r.raw.ZAdd(t.Context(), keyRoutes, redis.Z{Member: fmt.Sprintf("%04d", i)})
		if (i+1)%maxRoutes == 0 {
			if err := r.Tick(t.Context()); err != nil || len(r.routes) != maxRoutes {
				t.Fatalf("%d routes, %v", len(r.routes), err)
			}
			r.raw.Del(t.Context(), keyRoutes)
		}
	}
	if r.certify(); !r.View(chat).Serves() {
		t.Error("the own route has no place")
	}
}

func TestAFrozenRedisDelaysNobodyForLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := joinBy(t, redistest.Background(s.Addr))
	r.certify()
	s.Freeze()
	var wg sync.WaitGroup
	began := time.Now()
	for i := range 16 {
		wg.Go(func() {
			if _, err := r.Open(t.Context(), risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: fmt.Sprint("f", i), Score: 1}); !errors.Is(err, ErrAway) {
				t.Errorf("open: %v", err)
			}
		})
	}
	asked := time.Now()
	if !r.View(chat).Serves() || time.Since(asked) > callTime/2 {
		t.Errorf("a view took %s", time.Since(asked))
	}
	wg.Wait()
	if took := time.Since(began); took > 3*callTime {
		t.Errorf("16 audits waited %s", took)
	}
	s.Thaw()
	redistest.Within(t, 20*time.Second, "it reads on", func() bool { return r.Tick(t.Context()) == nil })
	sound(t, r.state())
	if v := r.View(chat); !v.Serves() {
		t.Errorf("nothing was lost, and nothing is served: %+v", v)
	}
}

func TestAReplicaThatIsPromotedKnowsNoMoreThanItWasTold(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t)
	promoted := redistest.Start(t, "--replicaof", "127.0.0.1", old.Port())
	r, next := join(t, old.Addr), join(t, promoted.Addr)
	r.certify()
	r.open("told", 1)
	redistest.Within(t, 20*time.Second, "the replica follows", func() bool {
		return next.Tick(t.Context()) == nil && next.route(chat.Route).fold != nil && differ(r.state(), next.state()) == ""
	})
	if err := next.Close(t.Context(), chat, "told", false); !errors.Is(err, ErrAway) {
		t.Errorf("a replica takes writes: %v", err)
	}
	was := next.copied()
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
	sound(t, w)
	e, before := w.Epochs[0], was.Epochs[0]
	if e.N[0] < before.N[0] || e.N[0] > before.N[0]+1 || e.O[0] != 0 || e.K[0] != before.K[0]-1 {
		t.Errorf("%d open, %d bad, %d audits after %d, %d, %d", e.O[0], e.K[0], e.N[0], before.O[0], before.K[0], before.N[0])
	}
	next.audit(5, 0, 1)
}

func TestARedisWithoutMemoryBooksNothingAndLosesNothing(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	r.open("under-way", 1)
	was := r.copied()
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	r.shut()
	if err := r.Close(t.Context(), chat, "under-way", true); !errors.Is(err, ErrAway) {
		t.Errorf("close: %v", err)
	}
	if d := differ(was, r.copied()); d != "" {
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

func TestAKeyOfTheWrongTypeStopsItsRouteAlone(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	r.certify()
	other := risk.Key{Route: "other", TrafficClass: "c"}
	r.raw.ZAdd(t.Context(), keyRoutes, redis.Z{Member: other.Route})
	r.raw.Set(t.Context(), keyLog+other.Route, "foreign", 0)
	late := join(t, s.Addr)
	if err := late.Tick(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("it is not told: %v", err)
	}
	if v := late.View(chat); !v.Serves() {
		t.Errorf("the other route: %+v", v)
	}
	if _, err := late.OpenWarmup(t.Context(), other, "w"); !errors.Is(err, ErrAway) || late.View(other).New || !late.View(other).Seen.IsZero() {
		t.Errorf("%v, %+v", err, late.View(other))
	}
	r.raw.Set(t.Context(), keyRoutes, "foreign", 0)
	r.later(2 * time.Minute)
	_ = r.Tick(t.Context())
	if v := r.View(chat); !v.Serves() {
		t.Errorf("without the list of routes: %+v", v)
	}
}

package settings

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
)

func TestOnlyWhatWentWithTheDataStaysInForce(t *testing.T) {
	type hash = map[string]string
	at := time.Unix(1_800_000_000, 0)
	off, was := hash{"speculation.mode": "off", shedLow: "0.7"}, Entry{Version: 5, When: at}
	since, before := Entry{Version: 1, When: at.Add(time.Second)}, Entry{Version: 3, When: at.Add(-time.Second)}
	removed := []Change{{Name: shedLow, Old: new("0.7")}, {Name: "speculation.mode", Old: new("off")}}
	for _, c := range []struct {
		name         string
		known, found hash
		head         Entry
		lost         []Change // before
		force        hash
	}{
		{"deleted on purpose", off, hash{}, was, nil, hash{}},
		{"all is gone", off, hash{}, Entry{}, nil, off},
		{"all is gone, and something was set since", off, hash{shedLow: "0"}, since, nil, hash{"speculation.mode": "off", shedLow: "0"}},
		{"older data: one is not there yet, one has its old value, one is there again", off, hash{shedLow: "0.6", shedHigh: "0"}, before, nil, off},
		{"older data that do not differ", off, off, before, nil, off},
		{"nobody has published it", off, hash{}, was, removed, off},
		{"nobody has published it, and Redis was emptied again", off, hash{}, Entry{}, removed, off},
		{"published", off, off, was, removed, off},
		{"set to another value", off, hash{"speculation.mode": "risk", shedLow: "0.7"}, was, removed, hash{"speculation.mode": "risk", shedLow: "0.7"}},
	} {
		w := New(Options{})
		w.raw, w.head = c.known, was
		w.setLost(c.lost)
		got := w.keep(c.found, c.head)
		if !maps.Equal(got, c.force) || (len(w.Lost()) > 0) == maps.Equal(c.found, c.force) {
			t.Errorf("%s: %v in force, lost: %+v", c.name, got, w.Lost())
		}
	}
}

// wipe loses all that a server has.
func (s store) wipe(t *testing.T) {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	if err := c.Del(context.Background(), Key, LogKey).Err(); err != nil {
		t.Fatal(err)
	}
}

// hash are the settings in Redis.
func (s store) hash(t *testing.T) map[string]string {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	h, err := c.HGetAll(context.Background(), Key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// watchers are replicas' and the store of an operator.
func (s store) watchers(t *testing.T, n int) (*Store, []*Watcher) {
	t.Helper()
	s.wipe(t)
	t.Cleanup(func() { s.wipe(t) })
	all := make([]*Watcher, n)
	for i := range all {
		all[i] = s.watcher(t)
	}
	c := longTimeoutClient(s.addr)
	t.Cleanup(func() { _ = c.Close() })
	return NewStore(c, []string{"m"}), all
}

// watcher is a replica that publishes only what a test has it publish.
func (s store) watcher(t *testing.T) *Watcher {
	t.Helper()
	c := client(s.addr, nil)
	t.Cleanup(func() { _ = c.Close() })
	return New(Options{Redis: c, Routes: []string{"m"}})
}

// poll has a watcher read; a machine that stalls may take it more than one try.
func poll(t *testing.T, all ...*Watcher) {
	t.Helper()
	for _, w := range all {
		within(t, 10*time.Second, func() bool { return w.Poll(t.Context()) == nil })
	}
}

// has checks the mode in force and what is lost.
func has(t *testing.T, when string, mode string, lost int, all ...*Watcher) {
	t.Helper()
	for i, w := range all {
		if got := in(w.Snapshot().Route("m"), "speculation.mode"); got != mode || len(w.Lost()) != lost {
			t.Errorf("%s: replica %d has mode %s, %d lost; want %s, %d", when, i, got, len(w.Lost()), mode, lost)
		}
		if got := testutil.ToFloat64(w.metrics.lost); got != float64(lost) {
			t.Errorf("%s: replica %d: the metric says %v", when, i, got)
		}
	}
}

// empty has Redis lose all, and holds that the mode stays off and so many settings are lost.
func (s store) empty(t *testing.T, when string, lost int, all []*Watcher) {
	t.Helper()
	s.wipe(t)
	poll(t, all...)
	has(t, when, "off", lost, all...)
}

// emptied are two replicas that have mode off in force, which Redis has lost.
func (s store) emptied(t *testing.T) (*Store, []*Watcher) {
	t.Helper()
	desk, all := s.watchers(t, 2)
	must(t, desk, nil, "speculation.mode=off")
	poll(t, all...)
	s.empty(t, "wiped", 1, all)
	return desk, all
}

func TestARedisThatCameBackEmptyGetsItsSettingsAgain(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		poll(t, all...)
		must(t, desk, nil, "speculation.mode@m=off", shedLow+"=0.7")
		poll(t, all...)
		has(t, "set", "off", 0, all...)
		s.empty(t, "wiped", 2, all)
		s.empty(t, "wiped again", 2, all)
		s.set(shedLow, "0")
		poll(t, all...)
		has(t, "something was set", "off", 1, all...)
		for _, w := range all {
			w.o.Store = desk
			w.republish(t.Context())
		}
		has(t, "published", "off", 0, all...)
		poll(t, all...)
		has(t, "published, and read", "off", 0, all...)
		want := []string{"3 foregate: speculation.mode@m -→off", "2 unknown: shed.low -→0"}
		if diff := cmp.Diff(want, history(t, desk)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		s.empty(t, "wiped after it was published", 2, all)
	})
}

func TestAReplicaThatWasAwayDoesNotUndoWhatWasUnsetSince(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		all[0].o.Store, all[1].o.Store = desk, desk
		poll(t, all...)
		must(t, desk, nil, "speculation.mode=off")
		poll(t, all...)
		s.empty(t, "wiped", 1, all[:1])
		all[0].republish(t.Context())
		must(t, desk, []string{"speculation.mode"})
		poll(t, all...)
		has(t, "the other comes back", "risk", 0, all...)
		if got := s.hash(t); len(got) != 0 {
			t.Errorf("set again: %v", got)
		}
	})
}

// afterLook has something happen once, after a store has read the log.
type afterLook struct {
	happens func()
	once    sync.Once
}

func (a *afterLook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *afterLook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "xrevrange" {
			a.once.Do(a.happens)
		}
		return err
	}
}

func (a *afterLook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestTwoReplicasThatPublishAtOnceDoNotUndoWhatIsUnsetInBetween(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.emptied(t)
		all[0].o.Store = desk
		c := longTimeoutClient(s.addr)
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(&afterLook{happens: func() {
			all[0].republish(t.Context())
			must(t, desk, []string{"speculation.mode"})
		}})
		all[1].o.Store = NewStore(c, []string{"m"})
		all[1].republish(t.Context())
		poll(t, all...)
		has(t, "one has published", "risk", 0, all...)
		if got := s.hash(t); len(got) != 0 {
			t.Errorf("set again: %v", got)
		}
	})
}

func TestWhoDeletesTheLastSettingOnPurposeIsObeyed(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		c := longTimeoutClient(s.addr)
		defer func() { _ = c.Close() }()
		for what, del := range map[string]func(){
			"HDEL": func() { s.del("speculation.mode") },
			"DEL":  func() { c.Del(t.Context(), Key) },
			"foregate settings unset": func() {
				if _, err := desk.Set(t.Context(), Edit{}, nil, []string{"speculation.mode"}); err != nil {
					t.Error(err)
				}
			},
		} {
			s.set("speculation.mode", "off")
			poll(t, all...)
			has(t, what, "off", 0, all...)
			del()
			poll(t, all...)
			has(t, what, "risk", 0, all...)
		}
	})
}

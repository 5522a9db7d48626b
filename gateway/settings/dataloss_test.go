package settings

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/calls"
)

func TestOnlyWhatWentWithTheDataStaysInForce(t *testing.T) {
	type hash = map[string]string
	off := hash{"speculation.mode": "off", shedLow: "0.7"}
	removed := []Change{{Name: shedLow, Old: new("0.7")}, {Name: "speculation.mode", Old: new("off")}}
	for _, c := range []struct {
		name         string
		known, found hash
		loss         calls.Loss
		lost         []Change // before
		force        hash
	}{
		{"deleted on purpose", off, hash{}, calls.NoLoss, nil, hash{}},
		{"all is gone", off, hash{}, calls.OtherData, nil, off},
		{"all is gone, and something was set since", off, hash{shedLow: "0"}, calls.OtherData, nil, hash{"speculation.mode": "off", shedLow: "0"}},
		{"older data: one is not there yet, one has its old value, one is there again", off, hash{shedLow: "0.6", shedHigh: "0"}, calls.OlderData, nil, off},
		{"older data that do not differ", off, off, calls.OlderData, nil, off},
		{"nobody has published it", off, hash{}, calls.NoLoss, removed, off},
		{"nobody has published it, and Redis was emptied again", off, hash{}, calls.OtherData, removed, off},
		{"published", off, off, calls.NoLoss, removed, off},
		{"set to another value", off, hash{"speculation.mode": "risk", shedLow: "0.7"}, calls.NoLoss, removed, hash{"speculation.mode": "risk", shedLow: "0.7"}},
		{"a replica that knows nothing", nil, hash{}, calls.OtherData, nil, hash{}},
	} {
		w := New(Options{})
		w.raw = c.known
		w.setLost(c.lost)
		got := w.keep(c.found, c.loss)
		if !maps.Equal(got, c.force) || (len(w.Lost()) > 0) == maps.Equal(c.found, c.force) {
			t.Errorf("%s: %v in force, lost: %+v", c.name, got, w.Lost())
		}
	}
}

// older is what a Redis that lost data comes back with: nothing, or a snapshot.
type older struct {
	run      string
	settings map[string]string
}

// wipe loses all that a server has; what stays, or comes back, is written at once.
func (s store) wipe(t *testing.T, then older) {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	_, err := c.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
		p.Del(context.Background(), Key, RunKey, LogKey)
		if then.run != "" {
			p.Set(context.Background(), RunKey, then.run, 0)
			p.HSet(context.Background(), Key, then.settings)
		}
		return nil
	})
	if err != nil {
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

// snapshot is what a Redis would come back with.
func (s store) snapshot(t *testing.T) older {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	run, err := c.Get(t.Context(), RunKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	return older{run, s.hash(t)}
}

// watchers are replicas' and the store of an operator.
func (s store) watchers(t *testing.T, n int) (*Store, []*Watcher) {
	t.Helper()
	s.wipe(t, older{})
	t.Cleanup(func() { s.wipe(t, older{}) })
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
	s.wipe(t, older{})
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
		if _, err := desk.Set(t.Context(), Edit{Who: "o"}, map[string]string{"speculation.mode@m": "off", shedLow: "0.7"}, nil); err != nil {
			t.Fatal(err)
		}
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
		want := []string{"2 foregate: speculation.mode@m -→off", "1 unknown: shed.low -→0"}
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
		has(t, "the other comes back", "off", 1, all[1])
		all[1].republish(t.Context())
		poll(t, all...)
		has(t, "it has read the history", "risk", 0, all...)
		if got := s.hash(t); len(got) != 0 {
			t.Errorf("set again: %v", got)
		}
	})
}

func TestWhatIsUnsetAfterALossStaysUnsetWhoeverTellsOfTheLossLate(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.emptied(t)
		told := all[1].Tell()
		all[0].o.Store = desk
		all[0].republish(t.Context())
		must(t, desk, []string{"speculation.mode"})
		late := s.watcher(t)
		late.o.Store = desk
		poll(t, all[0], late)
		for name, text := range told {
			all[0].Take(name, text, time.Second)
			poll(t, all[0])
			has(t, "it has published it", "risk", 0, all[0])
			late.Take(name, text, time.Second)
		}
		late.republish(t.Context())
		poll(t, late)
		has(t, "it has read the history", "risk", 0, late)
		if got := s.hash(t); len(got) != 0 {
			t.Errorf("set again: %v", got)
		}
	})
}

// afterLook has something happen once, after a store has read the log.
type afterLook struct {
	between
	once sync.Once
}

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
		c.AddHook(&afterLook{between: between{happens: func() {
			all[0].republish(t.Context())
			must(t, desk, []string{"speculation.mode"})
		}}})
		all[1].o.Store = NewStore(c, []string{"m"})
		all[1].republish(t.Context())
		poll(t, all...)
		has(t, "one has published", "risk", 0, all...)
		if got := s.hash(t); len(got) != 0 {
			t.Errorf("set again: %v", got)
		}
	})
}

func TestAReplicaThatStartsHearsOfALossThatCannotBePublished(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		_, all := s.watchers(t, 1)
		s.set("speculation.mode@m", "off")
		poll(t, all...)
		s.empty(t, "wiped", 1, all)
		late := s.watcher(t)
		poll(t, late)
		for name, text := range all[0].Tell() {
			late.Take(name, text, time.Minute)
			late.Take(name, "{", 0)
			late.Take("shed.low", text, 0)
			poll(t, late)
			has(t, "long ago, or not told", "risk", 0, late)
			late.Take(name, text, time.Second)
		}
		poll(t, late)
		has(t, "told", "off", 1, late)
		s.set("speculation.mode@m", "risk")
		poll(t, late, all[0])
		has(t, "set", "risk", 0, late, all[0])
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

func TestARedisThatCameBackWithOlderDataTakesNothingOutOfForceEither(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		s.set(shedLow, "0.7")
		s.set(shedHigh, "0.9")
		poll(t, all...)
		snapshot := s.snapshot(t)
		s.set("speculation.mode", "off")
		s.set(shedLow, "0")
		s.del(shedHigh)
		poll(t, all...)
		s.wipe(t, snapshot)
		poll(t, all[0])
		has(t, "back to the snapshot", "off", 3, all[0])
		if v := all[0].Snapshot().Global(); in(v, shedLow) != "0" || in(v, shedHigh) != in(new(Defaults()), shedHigh) {
			t.Errorf("%v", all[0].Snapshot().Set)
		}
		all[0].o.Store = desk
		all[0].republish(t.Context())
		poll(t, all...)
		has(t, "published", "off", 0, all...)
		if diff := cmp.Diff(map[string]string{"speculation.mode": "off", shedLow: "0"}, s.hash(t)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// between has something happen after Redis has read the settings for a watcher, and before it reads their run; or refuses the
// next command that stands alone.
type between struct {
	happens func()
	refusal error
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b.refusal; err != nil {
			b.refusal = nil
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		if b.happens == nil {
			return next(ctx, all)
		}
		err := next(ctx, all[:1])
		b.happens()
		b.happens = nil
		return errors.Join(err, next(ctx, all[1:]))
	}
}

// interrupted is a watcher with something between its reads, which has put mode off into force.
func (s store) interrupted(t *testing.T) (*Watcher, *between) {
	t.Helper()
	desk, _ := s.watchers(t, 0)
	c := client(s.addr, nil)
	t.Cleanup(func() { _ = c.Close() })
	var b between
	c.AddHook(&b)
	w := New(Options{Redis: c, Routes: []string{"m"}})
	poll(t, w)
	if _, err := desk.Set(t.Context(), Edit{Who: "o"}, map[string]string{"speculation.mode@m": "off"}, nil); err != nil {
		t.Fatal(err)
	}
	poll(t, w)
	return w, &b
}

func TestALossBetweenTheReadsOfSettingsAndRunIsFound(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		w, b := s.interrupted(t)
		b.happens = func() { s.wipe(t, older{}) }
		poll(t, w)
		has(t, "wiped while it was read", "off", 1, w)
		poll(t, w)
		has(t, "wiped", "off", 1, w)
	})
}

// The time for a read may be over when a loss was found, because Redis has just come back.
func TestALossIsRememberedUntilTheSettingsWereReadAgain(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		w, b := s.interrupted(t)
		s.wipe(t, older{})
		b.refusal = context.DeadlineExceeded
		if err := w.Poll(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		poll(t, w)
		has(t, "wiped", "off", 1, w)
	})
}

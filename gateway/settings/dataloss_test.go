package settings

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

func TestOnlyWhatWentWithTheDataStaysInForce(t *testing.T) {
	type hash = map[string]string
	off := hash{"speculation.mode": "off", shedLow: "0.7"}
	was := knownState{fields: off, mark: marker{"m", 5}}
	removed := &dataLoss{Changes: []Change{{Name: shedLow, Old: new("0.7")}, {Name: "speculation.mode", Old: new("off")}}}
	for _, c := range []struct {
		name  string
		known knownState
		found readState
		force hash
		lost  bool
	}{
		{"a replica that has just started", knownState{}, readState{fields: hash{}}, hash{}, false},
		{"one that starts after a loss", knownState{}, readState{fields: hash{}, publishedLoss: removed}, off, true},
		{"the last field deleted on purpose", was, readState{fields: hash{}, mark: marker{"m", 5}}, hash{}, false},
		{"deleted on purpose, and counted by another", was, readState{fields: hash{}, mark: marker{"m", 6}}, hash{}, false},
		{"another server with the same data", was, readState{fields: off, mark: marker{"m", 5}}, off, false},
		{"the marker alone is gone", was, readState{fields: off}, off, false},
		{"all is gone", was, readState{fields: hash{}}, off, true},
		{"all is gone, and something was set since", was, readState{fields: hash{shedLow: "0"}}, hash{"speculation.mode": "off", shedLow: "0"}, true},
		{"the same, with a marker by a replica that has just started", was, readState{fields: hash{shedLow: "0"}, mark: marker{"n", 1}}, hash{"speculation.mode": "off", shedLow: "0"}, true},
		{"older data: one is not there yet, one has its old value, one is there again", was, readState{fields: hash{shedLow: "0.6", shedHigh: "0"}, mark: marker{"m", 4}}, off, true},
		{"older data that do not differ", was, readState{fields: off, mark: marker{"m", 4}}, off, false},
		{"nobody has restored", knownState{fields: off, loss: removed}, readState{fields: hash{}, publishedLoss: removed}, off, true},
		{"nobody has restored, and Redis was emptied again", knownState{fields: off, loss: removed}, readState{fields: hash{}}, off, true},
		{"restored", knownState{fields: off, loss: removed}, readState{fields: off, publishedLoss: removed}, off, false},
		{"restored with another value", knownState{fields: off, loss: removed}, readState{fields: hash{"speculation.mode": "risk", shedLow: "0.7"}, publishedLoss: removed}, hash{"speculation.mode": "risk", shedLow: "0.7"}, false},
		{"accepted", knownState{fields: off, loss: removed}, readState{fields: hash{}, mark: marker{"accepted-1", 0}, publishedLoss: removed}, hash{}, false},
		{"accepted while this replica was away", was, readState{fields: hash{}, mark: marker{"accepted-1", 0}}, hash{}, false},
		{"accepted, and lost again", knownState{fields: off, mark: marker{"accepted-1", 2}}, readState{fields: hash{}}, off, true},
		{"accepted, and back to older data", knownState{fields: off, mark: marker{"accepted-1", 2}}, readState{fields: hash{}, mark: marker{"accepted-1", 1}}, off, true},
		{"no marker was ever there", knownState{fields: off}, readState{fields: hash{}}, hash{}, false},
	} {
		got := c.known.merge(c.found)
		if !maps.Equal(got.fields, c.force) || (got.loss != nil) != c.lost {
			t.Errorf("%s: %v in force, lost: %+v", c.name, got.fields, got.loss)
		}
	}
}

// wipe loses all that a server has; what stays, or comes back, is written at once.
func (s store) wipe(t *testing.T, then map[string]map[string]string) {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	_, err := c.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
		p.Del(context.Background(), Key, MarkerKey, LossKey, LogKey)
		for key, fields := range then {
			p.HSet(context.Background(), key, fields)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hash is a hash as it is.
func (s store) hash(t *testing.T, key string) map[string]string {
	t.Helper()
	c := longTimeoutClient(s.addr)
	defer func() { _ = c.Close() }()
	h, err := c.HGetAll(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// watchers are replicas' and the store of an operator.
func (s store) watchers(t *testing.T, n int) (*Store, []*Watcher) {
	t.Helper()
	s.wipe(t, nil)
	t.Cleanup(func() { s.wipe(t, nil) })
	all := make([]*Watcher, n)
	for i := range all {
		all[i] = s.watcher(t, nil)
	}
	c := longTimeoutClient(s.addr)
	t.Cleanup(func() { _ = c.Close() })
	return NewStore(c, []string{"m"}), all
}

func (s store) watcher(t *testing.T, log *logbook) *Watcher {
	t.Helper()
	c := client(s.addr, nil)
	t.Cleanup(func() { _ = c.Close() })
	o := Options{Redis: c, Routes: []string{"m"}}
	if log != nil {
		o.Logger = zerolog.New(log)
	}
	return New(o)
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
	s.wipe(t, nil)
	poll(t, all...)
	has(t, when, "off", lost, all...)
}

func TestARedisThatCameBackEmptyTakesNoSettingOutOfForce(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		poll(t, all...)
		order := Edit{Who: "o"}
		if _, err := desk.Set(t.Context(), order, map[string]string{"speculation.mode@m": "off", shedLow: "0.7"}, nil); err != nil {
			t.Fatal(err)
		}
		poll(t, all...)
		has(t, "set", "off", 0, all...)
		s.empty(t, "wiped", 2, all)
		late := s.watcher(t, nil)
		all = append(all, late)
		poll(t, all...)
		has(t, "one has started since", "off", 2, all...)
		s.empty(t, "wiped again", 2, all)
		s.set(shedLow, "0")
		poll(t, all...)
		has(t, "something was set", "off", 1, all...)
		if got := in(late.Snapshot().Global(), shedLow); got != "0" {
			t.Errorf("what was set since is %s", got)
		}
		lost, err := desk.Lost(t.Context())
		if diff := cmp.Diff([]Change{{Name: "speculation.mode@m", Old: new("off")}}, lost); diff != "" || err != nil {
			t.Errorf("lost: %v, -want +got:\n%s", err, diff)
		}
		if r, err := desk.Restore(t.Context(), order); err != nil || len(r.Changes) != 1 {
			t.Errorf("restored %+v, %v", r, err)
		}
		poll(t, all...)
		has(t, "restored", "off", 0, all...)
		if got := s.hash(t, LossKey); len(got) > 0 {
			t.Errorf("the loss is still told: %v", got)
		}
		if diff := cmp.Diff(map[string]string{"speculation.mode@m": "off", shedLow: "0"}, s.hash(t, Key)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		poll(t, all...)
		s.empty(t, "wiped after it was restored", 2, all)
	})
}

func TestALossThatIsAcceptedIsAChangeInTheLog(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, all := s.watchers(t, 2)
		s.set("speculation.mode", "off")
		poll(t, all...)
		s.empty(t, "wiped", 1, all)
		order := Edit{Who: "o", Why: "on purpose"}
		dry := order
		dry.DryRun = true
		if r, err := desk.Accept(t.Context(), dry); err != nil || len(r.Changes) != 1 {
			t.Errorf("dry: %+v, %v", r, err)
		}
		poll(t, all...)
		has(t, "a dry run", "off", 1, all...)
		if r, err := desk.Accept(t.Context(), order); err != nil || r.Version != 2 || len(r.Changes) != 1 || r.Changes[0].New != nil {
			t.Errorf("accepted: %+v, %v", r, err)
		}
		poll(t, all...)
		has(t, "accepted", "risk", 0, append(all, s.watcher(t, nil))...)
		for what, again := range map[string]func(context.Context, Edit) (Result, error){"accept": desk.Accept, "restore": desk.Restore} {
			if _, err := again(t.Context(), order); err == nil || !strings.Contains(err.Error(), "no replica tells") {
				t.Errorf("%s again: %v", what, err)
			}
		}
		if _, err := desk.Rollback(t.Context(), order, 1); err != nil {
			t.Error(err)
		}
		poll(t, all...)
		poll(t, all...)
		has(t, "rolled back to what was lost", "off", 0, all...)
		s.empty(t, "wiped again", 1, all)
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
		snapshot := map[string]map[string]string{Key: s.hash(t, Key), MarkerKey: s.hash(t, MarkerKey)}
		s.set("speculation.mode", "off")
		s.set(shedLow, "0")
		s.del(shedHigh)
		poll(t, all...)
		s.wipe(t, snapshot)
		poll(t, all...)
		has(t, "back to the snapshot", "off", 3, all...)
		for i, w := range all {
			if v := w.Snapshot().Global(); in(v, shedLow) != "0" || in(v, shedHigh) != in(new(Defaults()), shedHigh) {
				t.Errorf("replica %d: %v", i, w.Snapshot().Set())
			}
		}
		if r, err := desk.Restore(t.Context(), Edit{}); err != nil || len(r.Changes) != 3 {
			t.Errorf("restored %+v, %v", r, err)
		}
		poll(t, all...)
		has(t, "restored", "off", 0, all...)
		if diff := cmp.Diff(map[string]string{"speculation.mode": "off", shedLow: "0"}, s.hash(t, Key)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func FuzzALossOfOtherReplicasIsBoundedAndMayBeUndone(f *testing.F) {
	f.Add(`{"marker":"m","changes":[{"name":"shed.low","old":"0.7","new":null}]}`)
	f.Add(`{"changes":[{"name":"a"},{"name":"a","old":"b"}]}`)
	f.Add("[]")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLoss(text)
		if err != nil {
			return
		}
		got := knownState{}.merge(readState{fields: map[string]string{shedLow: "0.8"}, publishedLoss: l})
		if len(got.fields) > 1+len(l.Changes) {
			t.Errorf("%q: %v", text, got.fields)
		}
	})
}

// between has something happen after a watcher has read the settings, and before it reads their marker.
type between struct{ happens func() }

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		if args := all[0].Args(); len(args) > 1 && args[1] == MarkerKey && b.happens != nil {
			b.happens()
			b.happens = nil
		}
		return next(ctx, all)
	}
}

// interrupted is a watcher with something between its reads.
func (s store) interrupted(t *testing.T) (*Watcher, *between) {
	t.Helper()
	c := client(s.addr, nil)
	t.Cleanup(func() { _ = c.Close() })
	var b between
	c.AddHook(&b)
	return New(Options{Redis: c, Routes: []string{"m"}}), &b
}

func TestALossBetweenTheReadsOfSettingsAndMarkerIsFound(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		desk, _ := s.watchers(t, 0)
		w, b := s.interrupted(t)
		poll(t, w)
		if _, err := desk.Set(t.Context(), Edit{Who: "o"}, map[string]string{"speculation.mode@m": "off"}, nil); err != nil {
			t.Fatal(err)
		}
		poll(t, w)
		b.happens = func() { s.wipe(t, nil) }
		poll(t, w)
		has(t, "wiped while it was read", "off", 1, w)
		poll(t, w)
		has(t, "wiped", "off", 1, w)
	})
}

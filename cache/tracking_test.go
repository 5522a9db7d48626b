package cache

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

// trackedAt is a store that hears invalidations; its clock has a hand.
func trackedAt(t testing.TB, addr string) (*Store, *clock) {
	t.Helper()
	s := storeAt(t, addr)
	hand := new(clock)
	s.now = hand.now
	o := &redis.UniversalOptions{Addrs: []string{addr}, DisableIdentity: true, DialTimeout: time.Second, ReadTimeout: time.Second}
	Tracked(o)
	c := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s.tracking, _ = c.(*redis.Client)
	return s, hand
}

// copied looks an entry up once all that was changed before is heard, so that there is a copy that is tracked.
func copied(t testing.TB, s *Store, k Key) {
	t.Helper()
	began := s.now()
	redistest.Within(t, 10*time.Second, "invalidations are heard", func() bool { h := s.local.hearing.Load(); return h != nil && h.upTo.After(began) })
	wantFound(t, s, k, nil, FoundHit)
	if _, ok := s.Local(k); !ok {
		t.Fatal("there is no copy")
	}
}

func TestATrackedCopyGoesWhenRedisSaysSo(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, hand := trackedAt(t, r.Addr)
	running(t, s)
	raw, ctx, k := r.Client, t.Context(), keyNo(1)
	for name, change := range map[string]func() error{
		"overwritten": func() error { return raw.Set(ctx, k.Name(), s.sealer.Seal(k, answerOf(k, 50)), time.Hour).Err() },
		"deleted":     func() error { return raw.Del(ctx, k.Name()).Err() },
		"unlinked":    func() error { return raw.Unlink(ctx, k.Name()).Err() },
		"flushed":     func() error { return raw.FlushAll(ctx).Err() },
		"expired":     func() error { return raw.PExpire(ctx, k.Name(), time.Millisecond).Err() },
		"renamed":     func() error { return raw.Rename(ctx, k.Name(), "other").Err() },
	} {
		keep(t, s, k, answerOf(k, 100))
		copied(t, s, k)
		must(t, change())
		began := time.Now()
		redistest.Within(t, 5*time.Second, name+": the copy is gone", func() bool { _, ok := s.Local(k); return !ok })
		if took := time.Since(began); took > copyFor {
			t.Errorf("%s: gone after %v", name, took)
		}
	}
	keep(t, s, k, answerOf(k, 100))
	copied(t, s, k)
	hand.add(10 * copyFor)
	redistest.Within(t, 5*time.Second, "what is not changed is served for longer than a second", func() bool { _, ok := s.Local(k); return ok || refreshed(t, s, k) })
}

// refreshed looks again, where a ping came too late for a copy that the hand made old.
func refreshed(t *testing.T, s *Store, k Key) bool {
	t.Helper()
	wantFound(t, s, k, nil, FoundHit)
	return false
}

func TestACopyThatIsNotTrackedLivesForASecond(t *testing.T) {
	r := redistest.Start(t)
	s := storeAt(t, r.Addr)
	var hand clock
	s.now = hand.now
	running(t, s)
	k := keyNo(1)
	keep(t, s, k, answerOf(k, 100))
	hand.add(time.Hour) // of the test's own
	wantFound(t, s, k, nil, FoundHit)
	must(t, r.Client.FlushAll(t.Context()).Err())
	if _, ok := s.Local(k); !ok {
		t.Error("there is no copy")
	}
	hand.add(copyFor)
	if _, ok := s.Local(k); ok {
		t.Error("it is served for longer than a second")
	}
}

func TestAConnectionThatIsLostLeavesCopiesForTheirSecondAndIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, hand := trackedAt(t, r.Addr)
	running(t, s)
	k, raw := keyNo(1), r.Client
	keep(t, s, k, answerOf(k, 100))
	copied(t, s, k)
	number := s.local.hearing.Load().number
	must(t, raw.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	hand.add(copyFor + time.Millisecond)
	redistest.Within(t, 5*time.Second, "the subscription is over", func() bool { h := s.local.hearing.Load(); return h == nil || h.number > number })
	if _, ok := s.Local(k); ok {
		t.Error("a copy of the lost subscription outlives its second")
	}
	redistest.Within(t, 10*time.Second, "there is another", func() bool { h := s.local.hearing.Load(); return h != nil && h.number > number })
	redistest.Within(t, 10*time.Second, "the cache is asked again", func() bool { _, f := s.Look(t.Context(), k, nil); return f == FoundHit })
	copied(t, s, k)
}

func TestARedisThatDoesNotTrackIsToldOfOnce(t *testing.T) {
	m := miniredis.RunT(t)
	s, _ := trackedAt(t, m.Addr())
	var warnings atomic.Int32
	s.log = zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
		if strings.Contains(text, "copies of answers live for a second") {
			warnings.Add(1)
		}
	}))
	stop := running(t, s)
	redistest.Within(t, 5*time.Second, "a warning", func() bool { return warnings.Load() > 0 })
	k := keyNo(1)
	keep(t, s, k, answerOf(k, 100))
	wantFound(t, s, k, nil, FoundHit)
	if _, ok := s.Local(k); !ok || s.Stats().Tracked {
		t.Errorf("a copy %t, tracked %t", ok, s.Stats().Tracked)
	}
	stop()
	if got := warnings.Load(); got != 1 {
		t.Errorf("%d warnings", got)
	}
}

func TestLeasesAndTheirChunksAreNotHeardOf(t *testing.T) {
	for _, key := range []string{leaseOf(keyNo(1)).Name, leaseOf(keyNo(1)).chunks(), keyProbe} {
		for _, prefix := range trackPrefixes() {
			if p, _ := prefix.(string); strings.HasPrefix(p, keyPrefix) && strings.HasPrefix(key, p) {
				t.Errorf("%s is heard of as %s", key, p)
			}
		}
	}
	heard := 0
	for n := range 1000 {
		for _, prefix := range trackPrefixes() {
			if p, _ := prefix.(string); strings.HasPrefix(p, keyPrefix) && strings.HasPrefix(keyNo(n).Name(), p) {
				heard++
			}
		}
	}
	if heard != 1000 {
		t.Errorf("%d of 1000 entries are heard of", heard)
	}
}

func TestWhatIsNoInvalidationHasAllCopiesDropped(t *testing.T) {
	now := time.Now()
	k, other := keyNo(1), keyNo(2)
	for name, c := range map[string]struct {
		n                []any
		left, othersLeft bool
	}{
		"of a key":     {[]any{"invalidate", []any{k.Name()}}, false, true},
		"of no key":    {[]any{"invalidate", []any{}}, true, true},
		"of some key":  {[]any{"invalidate", []any{"foregate:settings", strings.Repeat("x", 1<<10)}}, true, true},
		"of all":       {[]any{"invalidate", nil}, false, false},
		"of a number":  {[]any{"invalidate", []any{int64(1)}}, false, false},
		"of a text":    {[]any{"invalidate", "x"}, false, false},
		"of too much":  {[]any{"invalidate", []any{}, []any{}}, false, false},
		"of nothing":   {[]any{"invalidate"}, false, false},
		"of an error":  {[]any{"invalidate", []any{errors.New("x")}}, false, false},
		"of a nested ": {[]any{"invalidate", []any{[]any{}}}, false, false},
	} {
		l := newLocal(1 << 20)
		for _, key := range []Key{k, other} {
			l.fill(l.reserve(key, now), copyOf("x"), now.Add(time.Hour))
		}
		_ = invalidations{l}.HandlePushNotification(t.Context(), push.NotificationHandlerContext{}, c.n)
		_, left := l.get(k, now)
		_, othersLeft := l.get(other, now)
		if left != c.left || othersLeft != c.othersLeft {
			t.Errorf("%s: left %t, others %t", name, left, othersLeft)
		}
	}
}

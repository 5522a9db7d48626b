package cache

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

func TestALookFindsWhatWasKept(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		running(t, s)
		k, ctx := keyNo(1), t.Context()
		wantFound(t, s, k, ResultMiss)
		e := answerOf(k, 2000)
		keep(t, s, k, e)
		if _, ok := s.Local(k); ok {
			t.Error("there is a copy before Redis was asked")
		}
		if got := wantFound(t, s, k, ResultHit); !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, want %+v", got, e)
		}
		if got, ok := s.Local(k); !ok || !reflect.DeepEqual(got, e) {
			t.Errorf("the copy is %+v, want %+v", got, e)
		}
		if ttl := raw.PTTL(ctx, k.Name()).Val(); ttl < 53*time.Minute || ttl > time.Hour {
			t.Errorf("it is kept for %v", ttl)
		}
	})
}

// spoiled are values that must not be served, by why they are refused.
func spoiled(t *testing.T, s *Store, k Key, put func(value any)) map[string]func() string {
	good := s.sealer.Seal(k, answerOf(k, 500))
	value := func(v []byte, why string) func() string { return func() string { put(v); return why } }
	flipped := slices.Clone(good)
	flipped[len(good)/2] ^= 4
	return map[string]func() string{
		"flipped":       value(flipped, refusedDamaged),
		"cut":           value(good[:len(good)-1], refusedDamaged),
		"another's":     value(s.sealer.Seal(keyNo(99), answerOf(k, 500)), refusedDamaged),
		"unknown key":   value(mustSealer(t, SealKey{ID: "b", Secret: secret(2)}).Seal(k, answerOf(k, 500)), refusedForeign),
		"plain text":    value([]byte("hello"), refusedForeign),
		"a single byte": value([]byte{'f'}, refusedForeign),
	}
}

func TestAValueThatDoesNotOpenIsAMissCountedAndGone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		var log strings.Builder
		s.log = zerolog.New(zerolog.SyncWriter(&log))
		stop := running(t, s)
		k, ctx := keyNo(1), t.Context()
		for name, spoil := range spoiled(t, s, k, func(v any) { must(t, raw.Set(ctx, k.Name(), v, time.Hour).Err()) }) {
			why := spoil()
			before := count(s.metrics.refused, why)
			if _, found := s.Look(ctx, k); found != ResultMiss {
				t.Errorf("%s: found %s", name, found)
			}
			if got := count(s.metrics.refused, why) - before; got != 1 {
				t.Errorf("%s: counted %d times as %s", name, got, why)
			}
			if raw.Exists(ctx, k.Name()).Val() != 0 {
				t.Errorf("%s: it is still there", name)
			}
			if _, ok := s.Local(k); ok {
				t.Errorf("%s: there is a copy", name)
			}
		}
		stop()
		if lines := strings.Count(log.String(), k.Name()); lines != 1 {
			t.Errorf("the log tells of them %d times, want once a minute:\n%s", lines, log.String())
		}
	})
}

func TestAKeyOfAnotherTypeIsAMissAndMended(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		running(t, s)
		ctx := t.Context()
		for i, kind := range []func(key string) error{
			func(key string) error { return raw.RPush(ctx, key, "x").Err() },
			func(key string) error { return raw.HSet(ctx, key, "x", "y").Err() },
			func(key string) error { return raw.SAdd(ctx, key, "x").Err() },
			func(key string) error { return raw.ZAdd(ctx, key, redis.Z{Score: 1, Member: "x"}).Err() },
			func(key string) error {
				return raw.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"x", "y"}}).Err()
			},
			func(key string) error { return raw.Set(ctx, key, "", 0).Err() },
			func(key string) error { return raw.Set(ctx, key, "hello", 0).Err() },
		} {
			k := keyNo(i)
			must(t, kind(k.Name()))
			wantFound(t, s, k, ResultMiss)
			if kind := raw.Type(ctx, k.Name()).Val(); kind != "none" && kind != "string" {
				t.Errorf("a %s is still there", kind)
			}
			keep(t, s, k, answerOf(k, 100))
			wantFound(t, s, k, ResultHit)
		}
		if count(s.metrics.refused, refusedType) != 5 || s.asker.Away() {
			t.Errorf("not refused, or away %t", s.asker.Away())
		}
	})
}

func TestAValueThatIsTooLargeIsAMissAndNotReadWhole(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		running(t, s)
		s.maxEntry = func() int { return 1000 }
		k := keyNo(1)
		must(t, raw.Set(t.Context(), k.Name(), strings.Repeat("x", 2001+sealOverhead), 0).Err())
		wantFound(t, s, k, ResultMiss)
		if got := count(s.metrics.refused, refusedLarge); got != 1 {
			t.Errorf("%d counted", got)
		}
		s.maxEntry = func() int { return 1 }
		other := keyNo(2)
		keep(t, s, other, &Entry{Acceptance: strings.Repeat("a", maxWord), Answer: []byte("x")})
		wantFound(t, s, other, ResultHit)
	})
}

func TestWithoutRedisNothingIsFoundAndNothingKept(t *testing.T) {
	s := NewStore(Options{})
	stop := running(t, s)
	wantFound(t, s, keyNo(1), ResultMiss)
	keep(t, s, keyNo(1), answerOf(keyNo(1), 10))
	if _, ok := s.Local(keyNo(1)); ok {
		t.Error("there is a copy")
	}
	if e, ok := s.Epochs("acme", "m"); !ok || e != (Epochs{}) {
		t.Errorf("%+v, %t: nobody can have purged anything", e, ok)
	}
	stop()
}

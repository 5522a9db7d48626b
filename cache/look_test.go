package cache

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

func TestALookFindsAnEntryOrTakesTheLeaseOrFollowsIt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		running(t, s)
		k, ctx := keyNo(1), t.Context()
		wantFound(t, s, k, nil, FoundNone)
		first, second := leaseOf(k), leaseOf(k)
		must(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: first.chunks(), Values: []string{"d", "of one before"}}).Err())
		wantFound(t, s, k, first, FoundLead)
		if held := raw.Get(ctx, first.Name).Val(); held != first.Token {
			t.Errorf("the lease is %q's", held)
		}
		if ttl := raw.PTTL(ctx, first.Name).Val(); ttl <= 0 || ttl > leaseTTL*time.Millisecond {
			t.Errorf("the lease holds for %v", ttl)
		}
		if raw.Exists(ctx, first.chunks()).Val() != 0 {
			t.Error("what another leader told is still there")
		}
		wantFound(t, s, k, first, FoundLead) // it is ours
		wantFound(t, s, k, nil, FoundNone)
		wantFound(t, s, k, second, FoundFollow)
		if second.Holder != first.Token || first.Holder != "" {
			t.Errorf("followed %q, want %q", second.Holder, first.Token)
		}
		if n := raw.XLen(ctx, second.chunks()).Val(); n != 1 {
			t.Errorf("%d chunks tell the holder that it is followed", n)
		}
		if ttl := raw.PTTL(ctx, second.chunks()).Val(); ttl <= 0 || ttl > leaseTTL*time.Millisecond {
			t.Errorf("the chunks stay for %v", ttl)
		}
		wantFound(t, s, k, second, FoundFollow)
		if n := raw.XLen(ctx, second.chunks()).Val(); n != 1 {
			t.Errorf("%d chunks after a second look", n)
		}
		e := answerOf(k, 2000)
		keep(t, s, k, e)
		if got := wantFound(t, s, k, second, FoundHit); !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, want %+v", got, e)
		}
		if ttl := raw.PTTL(ctx, k.Name()).Val(); ttl < 53*time.Minute || ttl > time.Hour {
			t.Errorf("it is kept for %v", ttl)
		}
	})
}

func TestOfManyWhoLookAtOnceOneLeads(t *testing.T) {
	s := redistest.Start(t)
	var mu sync.Mutex
	found := map[Found]int{}
	var all sync.WaitGroup
	for range 3 {
		r := storeAt(t, s.Addr)
		for range 20 {
			all.Go(func() {
				_, f := r.Look(t.Context(), keyNo(1), leaseOf(keyNo(1)))
				mu.Lock()
				found[f]++
				mu.Unlock()
			})
		}
	}
	all.Wait()
	if found[FoundLead] != 1 || found[FoundFollow] != 59 {
		t.Errorf("%v", found)
	}
}

func TestABurstOfLooksTakesTurns(t *testing.T) {
	s := redistest.Start(t)
	o := redistest.OnRequests(s.Addr)
	o.ReadTimeout = patient()
	r := NewStore(Options{Redis: redistest.Client(t, o), Budget: patient})
	running(t, r)
	k := keyNo(1)
	keep(t, r, k, answerOf(k, 2000))
	var hits atomic.Int32
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, found := r.Look(t.Context(), k, nil); found == FoundHit {
				hits.Add(1)
			}
		})
	}
	all.Wait()
	if hits.Load() != 1000 {
		t.Errorf("%d of 1000 are hits", hits.Load())
	}
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
			before := s.Stats().Refused[why]
			lease := leaseOf(k)
			if _, found := s.Look(ctx, k, lease); found != FoundLead {
				t.Errorf("%s: found %s", name, found)
			}
			if got := s.Stats().Refused[why] - before; got != 1 {
				t.Errorf("%s: counted %d times as %s", name, got, why)
			}
			if raw.Exists(ctx, k.Name()).Val() != 0 {
				t.Errorf("%s: it is still there", name)
			}
			if _, ok := s.Local(k); ok {
				t.Errorf("%s: there is a copy", name)
			}
			must(t, raw.Del(ctx, lease.Name).Err())
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
			a, b := leaseOf(k), leaseOf(k)
			for _, key := range []string{k.Name(), a.Name, a.chunks()} {
				must(t, kind(key))
			}
			wantFound(t, s, k, a, FoundLead)
			must(t, kindOr(raw.Type(ctx, a.chunks()).Val() == "none", kind, a.chunks()))
			wantFound(t, s, k, b, FoundFollow)
			if b.Holder != a.Token || raw.Type(ctx, b.chunks()).Val() != "stream" {
				t.Errorf("kind %d: follows %q in a %s", i, b.Holder, raw.Type(ctx, b.chunks()).Val())
			}
			keep(t, s, k, answerOf(k, 100))
			wantFound(t, s, k, nil, FoundHit)
		}
		if s.Stats().Away {
			t.Error("keys of other types have Redis left alone")
		}
	})
}

// kindOr makes a key of another type where there is none.
func kindOr(there bool, kind func(string) error, key string) error {
	if there {
		return kind(key)
	}
	return errors.New("what another left is still there")
}

func TestAValueThatIsTooLargeIsAMissAndNotRead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		running(t, s)
		s.maxEntry = func() int { return 1000 }
		k := keyNo(1)
		must(t, raw.Set(t.Context(), k.Name(), strings.Repeat("x", 2001+sealOverhead), 0).Err())
		wantFound(t, s, k, leaseOf(k), FoundLead)
		if got := s.Stats().Refused[refusedLarge]; got != 1 {
			t.Errorf("%d counted", got)
		}
		s.maxEntry = func() int { return 1 }
		other := keyNo(2)
		keep(t, s, other, &Entry{Acceptance: strings.Repeat("a", maxWord), Answer: []byte("x")})
		wantFound(t, s, other, nil, FoundHit)
	})
}

func TestScriptsThatWereFlushedAreLoadedAgainByWhoLooks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr) // nothing is loaded before Run
		for range 3 {
			must(t, raw.ScriptFlush(t.Context()).Err())
			wantFound(t, s, keyNo(1), nil, FoundNone)
		}
	})
}

func TestWithoutRedisNothingIsFoundAndNothingKept(t *testing.T) {
	s := NewStore(Options{})
	stop := running(t, s)
	wantFound(t, s, keyNo(1), leaseOf(keyNo(1)), FoundNone)
	keep(t, s, keyNo(1), answerOf(keyNo(1), 10))
	if _, ok := s.Local(keyNo(1)); ok {
		t.Error("there is a copy")
	}
	if e, ok := s.Epochs("acme", "m"); !ok || e != (Epochs{}) {
		t.Errorf("%+v, %t: nobody can have purged anything", e, ok)
	}
	stop()
}

func FuzzParseReply(f *testing.F) {
	f.Add("hit", "value", int64(3), 3)
	f.Add("follow", "token", int64(0), 3)
	f.Add("lead", "", int64(2), 3)
	f.Add("none", "", int64(1), 3)
	f.Add("", "", int64(1), -1)
	f.Add("hit", "", int64(-1), 4)
	f.Fuzz(func(t *testing.T, kind, text string, n int64, size int) {
		list := []any{kind, text, n, nil}[:min(max(size, 0), 4)]
		var got any = list
		if size < 0 {
			got = n
		}
		r, err := parseReply(got)
		if err != nil {
			if !errors.Is(err, errReply) || !reflect.ValueOf(r).IsZero() {
				t.Errorf("%+v, %v", r, err)
			}
			return
		}
		if size < 0 != (r.found == FoundNone) || size >= 0 && len(list) != 3 || r.ttl < 0 || r.ttl > maxTTL || len(r.holder) > maxHolder || (r.found == FoundFollow) != (r.holder != "") {
			t.Errorf("%+v", r)
		}
		if r.found != FoundHit && r.value != "" {
			t.Errorf("a value without a hit: %+v", r)
		}
	})
}

func TestAReplyOfAnotherShapeIsRefused(t *testing.T) {
	for _, got := range []any{
		nil, "0", []any{}, []any{"hit"}, []any{"hit", nil, int64(1)}, []any{int64(1), "x", int64(1)}, []any{"hit", "x", "1"},
		[]any{"miss", "", int64(0)}, []any{"none", "", int64(0)}, []any{"follow", "", int64(0)},
	} {
		if r, err := parseReply(got); !errors.Is(err, errReply) {
			t.Errorf("%v: %+v, %v", got, r, err)
		}
	}
	if !replied(errReply) || replied(context.DeadlineExceeded) || replied(errors.New("LOADING")) {
		t.Error("what counts as an answer is wrong")
	}
}

func BenchmarkLookHit2kB(b *testing.B) {
	s := redistest.Start(b)
	r := storeAt(b, s.Addr)
	running(b, r)
	k := keyNo(1)
	keep(b, r, k, answerOf(k, 2000))
	value, err := r.redis.Get(b.Context(), k.Name()).Bytes()
	must(b, err)
	must(b, r.redis.Set(b.Context(), "raw", value, 0).Err())
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				got, err := r.redis.Get(context.Background(), "raw").Bytes()
				if err != nil || !bytes.Equal(got, value) {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("script", func(b *testing.B) { // the round trip alone
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if got, err := r.eval(context.Background(), look{name: k.Name()}); err != nil || got.found != FoundHit {
					b.Fatal(got.found, err)
				}
			}
		})
	})
	b.Run("look", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, found := r.Look(context.Background(), k, nil); found != FoundHit {
					b.Fatal(found)
				}
			}
		})
	})
	b.Run("local", func(b *testing.B) {
		b.ReportAllocs()
		r.local.fill(r.local.reserve(k, time.Now().Add(time.Hour)), answerOf(k, 2000), time.Now().Add(2*time.Hour))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, ok := r.Local(k); !ok {
					b.Fatal("no copy")
				}
			}
		})
	})
}

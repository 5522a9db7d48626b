package conversations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/internal/redistest"
)

// world is what the stores of a test share.
type world struct {
	addr   string
	config Config
	epoch  atomic.Uint64 // of purges
	blind  atomic.Bool   // purges are not known
}

func newWorld(addr string) *world {
	return &world{addr: addr, config: Config{Enabled: true, TTL: time.Hour, TenantBytes: 4 << 20}}
}

// replica is a store of its own.
func (w *world) replica(t testing.TB) *Store {
	t.Helper()
	o := redistest.Background(w.addr)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience
	s := New(Options{
		Redis: redistest.Client(t, o), MaxBytes: 64 << 10, Config: func() Config { return w.config },
		Epochs: func(string) (cache.Epochs, bool) { return cache.Epochs{Tenant: w.epoch.Load()}, !w.blind.Load() },
	})
	s.putTime = patience
	return s
}

// patience is the time of a busy machine.
const patience = 10 * time.Second

// request is the id of the nth request.
func request(n int) string { return fmt.Sprintf("%032x", n) }

// turn is the nth turn, of which input and output have a size in bytes, about.
func turn(n int, before ID, size int) Turn {
	return Turn{
		ID: Next(before, request(n)), Before: before, Whole: fmt.Appendf(nil, `{"n":%d}`, n),
		Input: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, noise(size)))}, Output: json.RawMessage(fmt.Sprintf(`[{"answer":%d}]`, n)),
	}
}

// noise is a text that hardly compresses.
func noise(size int) string {
	var b strings.Builder
	for x := uint32(1); b.Len() < size; {
		x = x*1664525 + 1013904223
		_ = b.WriteByte('!' + byte(x>>24)%90)
	}
	return strings.NewReplacer(`"`, "x", `\`, "y").Replace(b.String())
}

func put(t testing.TB, s *Store, tenant string, turn Turn) {
	t.Helper()
	if err := s.Put(t.Context(), tenant, turn, 0); err != nil {
		t.Fatalf("turn %s: %v", turn.ID, err)
	}
}

// turnsOf are the turns up to a response, the first one first.
func turnsOf(t testing.TB, s *Store, tenant string, id ID) (turns []Turn, err error) {
	t.Helper()
	for turn, err := range s.Turns(t.Context(), tenant, id) {
		if err != nil {
			return nil, err
		}
		turns = append([]Turn{turn}, turns...)
	}
	return turns, nil
}

// putTwo stores a conversation of two turns.
func putTwo(t *testing.T, s *Store) (first, second Turn) {
	t.Helper()
	first = turn(1, ID{}, 10)
	second = turn(2, first.ID, 10)
	put(t, s, "acme", first)
	put(t, s, "acme", second)
	return first, second
}

func TestATurnIsReadAtEveryReplicaAtOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(addr)
		a, b := w.replica(t), w.replica(t)
		first := turn(1, ID{}, 10)
		put(t, a, "acme", first)
		second := turn(2, first.ID, 10)
		put(t, b, "acme", second)
		branch := turn(3, first.ID, 10)
		put(t, a, "acme", branch)
		got, err := turnsOf(t, b, "acme", branch.ID)
		if err != nil || len(got) != 2 || string(got[0].Output) != `[{"answer":1}]` || string(got[1].Output) != `[{"answer":3}]` || got[1].Before != first.ID {
			t.Errorf("%+v, %v", got, err)
		}
		if whole, err := b.Whole(t.Context(), "acme", second.ID); string(whole) != `{"n":2}` {
			t.Errorf("%s, %v", whole, err)
		}
		for _, id := range []ID{Next(ID{}, request(9)), Next(first.ID, request(9))} {
			if _, err := turnsOf(t, a, "acme", id); !errors.Is(err, ErrMissing) {
				t.Errorf("forged %s: %v", id, err)
			}
		}
		if _, err := turnsOf(t, a, "other", second.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("another tenant's: %v", err)
		}
		if err := a.Delete(t.Context(), "other", second.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("another tenant's is deleted: %v", err)
		}
		for _, key := range c.Keys(t.Context(), "*").Val() {
			if ttl := c.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Hour {
				t.Errorf("%s lives for %v", key, ttl)
			}
			if strings.Contains(key, "acme") || strings.Contains(key, request(1)) {
				t.Errorf("the key %s names what it is of", key)
			}
		}
	})
}

func TestADeletedResponseIsGoneAndNothingGoesOnFromIt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		s := newWorld(addr).replica(t)
		first, second := putTwo(t, s)
		if err := s.Delete(t.Context(), "acme", first.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "acme", first.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("deleted twice: %v", err)
		}
		if _, err := turnsOf(t, s, "acme", second.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("it goes on: %v", err)
		}
		if err := s.Put(t.Context(), "acme", turn(3, first.ID, 10), 0); !errors.Is(err, ErrMissing) {
			t.Errorf("a turn is stored behind a deleted one: %v", err)
		}
		if err := s.Delete(t.Context(), "acme", second.ID); err != nil {
			t.Fatal(err)
		}
		index := owner{tenant: "acme"}
		keys, _ := index.keys(first.ID)
		if n := c.ZCard(t.Context(), keys[0]).Val(); n != 0 || c.HGet(t.Context(), keys[1], "").Val() != "0" {
			t.Errorf("%d conversations of %s bytes are left", n, c.HGet(t.Context(), keys[1], "").Val())
		}
	})
}

// milliseconds are those of Redis' clock.
func milliseconds(t *testing.T, c *redis.Client) int64 {
	t.Helper()
	now, err := c.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMilli()
}

// TestATenantForgetsItsOldestConversations stores conversations of about 10 kB each.
func TestATenantForgetsItsOldestConversations(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(addr)
		w.config.TenantBytes = 64 << 10
		s := w.replica(t)
		other := turn(99, ID{}, 10)
		put(t, s, "other", other)
		var all []Turn
		for n := range 12 {
			all = append(all, turn(n, ID{}, 10_000))
			put(t, s, "acme", all[n])
			for stored := milliseconds(t, c); milliseconds(t, c) == stored; { // they are ordered by them
			}
		}
		for n, turn := range all {
			_, err := turnsOf(t, s, "acme", turn.ID)
			if forgotten := errors.Is(err, ErrMissing); forgotten != (n < 6) {
				t.Errorf("turn %d: %v", n, err)
			}
		}
		if _, err := turnsOf(t, s, "other", other.ID); err != nil {
			t.Errorf("another tenant's: %v", err)
		}
		bytes := int64(0)
		for _, key := range c.Keys(t.Context(), "*").Val() {
			for _, value := range c.HVals(t.Context(), key).Val() {
				bytes += int64(len(value))
			}
		}
		if bytes > int64(w.config.TenantBytes)+1<<10 {
			t.Errorf("%d bytes are kept", bytes)
		}
	})
}

func TestAConversationIsBounded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		w := newWorld(addr)
		s := w.replica(t)
		if err := s.Put(t.Context(), "acme", turn(1, ID{}, 65<<10), 0); !errors.Is(err, ErrLarge) {
			t.Errorf("a turn of too many bytes: %v", err)
		}
		if err := s.Put(t.Context(), "acme", turn(1, ID{}, 1<<10), 64<<10); !errors.Is(err, ErrLarge) {
			t.Errorf("a turn behind too many bytes: %v", err)
		}
		first := turn(1, ID{}, 1)
		put(t, s, "acme", first)
		var err error
		n := 2
		for ; err == nil && n < 1000; n++ { // branches, which no request reads together
			err = s.Put(t.Context(), "acme", turn(n, first.ID, 10<<10), 0)
		}
		if !errors.Is(err, ErrLarge) || n < 10 || n > 15 {
			t.Errorf("%d branches of 10 kB are kept: %v", n-1, err)
		}
		w.config.TenantBytes = 1 << 10
		if err := s.Put(t.Context(), "small", turn(1, ID{}, 2<<10), 0); !errors.Is(err, ErrLarge) {
			t.Errorf("more than a tenant's bytes: %v", err)
		}
	})
}

func TestAConversationOfManyTurnsIsOneRead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		s := newWorld(addr).replica(t)
		s.o.MaxBytes = 1 << 20
		last := ID{}
		for n := range maxTurns {
			turn := turn(n, last, 1)
			turn.Input = nil
			if err := s.Put(t.Context(), "acme", turn, 0); err != nil {
				t.Fatalf("turn %d: %v", n, err)
			}
			last = turn.ID
		}
		if err := s.Put(t.Context(), "acme", turn(5000, last, 1), 0); !errors.Is(err, ErrLarge) {
			t.Errorf("one turn more: %v", err)
		}
		if turns, err := turnsOf(t, s, "acme", last); len(turns) != maxTurns || err != nil {
			t.Errorf("%d turns, %v", len(turns), err)
		}
	})
}

func TestTurnsExpireAndAPurgeLeavesNothingToFind(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		w := newWorld(addr)
		s := w.replica(t)
		first := turn(1, ID{}, 10)
		put(t, s, "acme", first)
		w.epoch.Add(1)
		if _, err := turnsOf(t, s, "acme", first.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("after a purge: %v", err)
		}
		if err := s.Put(t.Context(), "acme", turn(2, first.ID, 10), 0); !errors.Is(err, ErrMissing) {
			t.Errorf("a turn behind a purged one: %v", err)
		}
		w.blind.Store(true)
		if _, err := turnsOf(t, s, "acme", first.ID); !errors.Is(err, ErrAway) {
			t.Errorf("without knowing of purges: %v", err)
		}
		w.blind.Store(false)
		w.config.TTL = 50 * time.Millisecond
		short := turn(3, ID{}, 10)
		put(t, s, "acme", short)
		gone := func() bool { _, err := turnsOf(t, s, "acme", short.ID); return errors.Is(err, ErrMissing) }
		for began := time.Now(); !gone(); {
			if time.Since(began) > 10*time.Second {
				t.Fatal("it does not expire")
			}
		}
		put(t, s, "acme", turn(4, ID{}, 10))
		keys, _ := owner{tenant: "acme", epochs: cache.Epochs{Tenant: 1}}.keys(first.ID)
		if n := c.ZCard(t.Context(), keys[0]).Val(); n != 1 {
			t.Errorf("%d conversations are named, of which one has not expired", n)
		}
	})
}

// TestAValueOfAnotherResponseDoesNotOpen moves a sealed value to where another one was.
func TestAValueOfAnotherResponseDoesNotOpen(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		s := newWorld(addr).replica(t)
		first, second := putTwo(t, s)
		of := owner{tenant: "acme"}
		keys, _ := of.keys(first.ID)
		value := c.HGet(t.Context(), keys[2], of.field(first.ID)).Val()
		if strings.Contains(value, "answer") {
			t.Error("the text is readable")
		}
		if err := c.HSet(t.Context(), keys[2], of.field(second.ID), value).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := turnsOf(t, s, "acme", second.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("it opens: %v", err)
		}
	})
}

// TestTurnsAreOpenedOneAfterTheOther breaks the first turn of two.
func TestTurnsAreOpenedOneAfterTheOther(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		s := newWorld(addr).replica(t)
		first, second := putTwo(t, s)
		of := owner{tenant: "acme"}
		keys, _ := of.keys(first.ID)
		if err := c.HSet(t.Context(), keys[2], of.field(first.ID), "broken").Err(); err != nil {
			t.Fatal(err)
		}
		for turn, err := range s.Turns(t.Context(), "acme", second.ID) {
			if err != nil || turn.ID != second.ID {
				t.Errorf("%+v, %v", turn, err)
			}
			break
		}
		if _, err := turnsOf(t, s, "acme", second.ID); !errors.Is(err, ErrMissing) {
			t.Errorf("the first one: %v", err)
		}
	})
}

// TestRedisThatFailsIsToldInTime asks a server that is killed, one that is silent, and one that is full.
func TestRedisThatFailsIsToldInTime(t *testing.T) {
	full := redistest.Start(t)
	full.Do("CONFIG", "SET", "maxmemory", "1")
	killed := redistest.Start(t)
	killed.Kill()
	for name, addr := range map[string]string{"full": full.Addr, "killed": killed.Addr, "silent": redistest.StartFrozen(t)} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(addr).replica(t)
			s.putTime = PutTime
			for n := range 3 {
				began := time.Now()
				if err := s.Put(t.Context(), "acme", turn(n, ID{}, 10), 0); !errors.Is(err, ErrAway) {
					t.Errorf("put: %v", err)
				}
				if took := time.Since(began); took > PutTime+time.Second {
					t.Errorf("the end of an answer waited for %v", took)
				}
			}
			if name == "full" { // it can be read
				return
			}
			if _, err := turnsOf(t, s, "acme", turn(1, ID{}, 1).ID); !errors.Is(err, ErrAway) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// TestATurnThatIsStoredTooLateIsDeleted has a server whose replies take longer than the end of an answer waits.
func TestATurnThatIsStoredTooLateIsDeleted(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr, 0)
	w := newWorld(proxy.Addr)
	o := redistest.Background(w.addr)
	o.ReadTimeout = 10 * time.Second
	s := New(Options{Redis: redistest.Client(t, o), MaxBytes: 1 << 10, Config: func() Config { return w.config }})
	put(t, s, "acme", turn(1, ID{}, 10)) // the scripts are loaded
	proxy.Delay(2 * PutTime)
	if err := s.Put(t.Context(), "acme", turn(2, ID{}, 10), 0); !errors.Is(err, ErrAway) {
		t.Fatal(err)
	}
	proxy.Delay(0)
	keys, _ := owner{tenant: "acme"}.keys(turn(2, ID{}, 1).ID)
	for began := time.Now(); ; {
		s.asker.Drain(10 * time.Second)
		if n := server.Client.Exists(context.Background(), keys[2]).Val(); n == 0 {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("the client was told that it is not stored, and it is")
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(request(1))
	f.Add(request(1) + "_" + request(2))
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := ParseID(s); ok && !strings.HasSuffix(s, id.String()) {
			t.Errorf("%q is read as %q", s, id)
		}
	})
}

package cache

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

// reads has a store read the hash of purges as the exchange does, and write what is due. It returns the epochs of acme's
// requests to m.
func reads(t *testing.T, s *Store) Epochs {
	t.Helper()
	redistest.Within(t, 10*time.Second, "the hash is read, and has all", func() bool { // a busy machine may be late
		at := time.Now()
		s.askEpochs(t.Context())
		select {
		case <-s.purges.due:
			s.purges.mu.Lock()
			defer s.purges.mu.Unlock()
			if s.amend(t.Context()) != nil {
				s.purges.wake()
			}
			return false
		default:
			k := s.purges.known.Load()
			return k != nil && !k.at.Before(at)
		}
	})
	e, _ := s.Epochs("acme", "m")
	return e
}

// freshAt is a store that has heard of no purge.
func freshAt(t *testing.T, addr string) *Store {
	t.Helper()
	s := storeAt(t, addr)
	s.purges.known.Store(nil)
	return s
}

// fieldsAt is what the hash says.
func fieldsAt(t *testing.T, c *redis.Client) map[Scope]uint64 {
	t.Helper()
	fields, err := c.HGetAll(t.Context(), KeyEpochs).Result()
	must(t, err)
	said, err := parseEpochs(fields)
	must(t, err)
	return said
}

// purgeAt has a store purge.
func purgeAt(t *testing.T, s *Store, scope Scope) (everything bool) {
	t.Helper()
	everything, err := s.Purge(t.Context(), scope)
	must(t, err)
	return everything
}

// replicas are running stores over one Redis.
func replicas(t *testing.T, addr string, n int) (all []*Store) {
	for range n {
		s := NewStore(Options{Redis: redistest.Client(t, redistest.OnRequests(addr)), Control: redistest.Client(t, redistest.Background(addr)), Budget: patient})
		running(t, s)
		redistest.Within(t, 10*time.Second, "purges are heard", func() bool { _, ok := s.Epochs("acme", "m"); return ok })
		all = append(all, s)
	}
	return all
}

// keyAt is the key of acme's question at a replica.
func keyAt(s *Store) Key {
	e, _ := s.Epochs("acme", "m")
	return KeyOf(&Parts{Tenant: "acme", Route: "m", Epochs: e})
}

func TestNoReplicaServesAPurgedAnswerASecondLater(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		all := replicas(t, addr, 3)
		for i, scope := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}, {Tenant: "acme"}} {
			k := keyAt(all[0])
			redistest.Within(t, 5*time.Second, "all have one key", func() bool { return keyAt(all[1]) == k && keyAt(all[2]) == k })
			keep(t, all[0], k, answerOf(k, 100))
			for _, s := range all {
				wantFound(t, s, k, ResultHit)
				if _, ok := s.Local(k); !ok {
					t.Fatal("there is no copy")
				}
			}
			other, _ := all[2].Epochs("globex", "n")
			if purgeAt(t, all[i%3], scope) {
				t.Errorf("%v became everything", scope)
			}
			if keyAt(all[i%3]) == k {
				t.Error("the replica that purges goes on")
			}
			took := redistest.Within(t, 5*time.Second, "all have heard", func() bool {
				next := keyAt(all[0])
				return next != k && keyAt(all[1]) == next && keyAt(all[2]) == next
			})
			if took > MaxEpochAge+200*time.Millisecond { // a machine that stalls
				t.Errorf("a purge was in force after %v", took)
			}
			if now, _ := all[2].Epochs("globex", "n"); (now != other) != (scope == Scope{}) {
				t.Errorf("%v: another tenant's went from %+v to %+v", scope, other, now)
			}
		}
	})
}

func TestAPurgeWithoutRedisIsInForceHereAndEverywhereOnceItReturns(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*redistest.Server) }{
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			all := replicas(t, srv.Addr, 3)
			k := keyAt(all[0])
			redistest.Within(t, 5*time.Second, "all have one key", func() bool { return keyAt(all[1]) == k && keyAt(all[2]) == k })
			fault.begin(srv)
			began := time.Now()
			if _, err := all[0].Purge(t.Context(), Scope{Tenant: "acme"}); !errors.Is(err, ErrNotShared) {
				t.Fatalf("the purge ends with %v", err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if keyAt(all[0]) == k || keyAt(all[1]) != k {
				t.Error("it is not in force here, or already elsewhere")
			}
			fault.end(srv)
			took := redistest.Within(t, 10*time.Second, "it is in force everywhere", func() bool {
				next := keyAt(all[0])
				return next != k && keyAt(all[1]) == next && keyAt(all[2]) == next && all[1].Hears() && all[2].Hears()
			})
			if took > time.Second+500*time.Millisecond { // a machine that stalls
				t.Errorf("it was in force %v after Redis' return", took)
			}
			t.Logf("in force %v after Redis' return", took)
		})
	}
}

func TestAPurgeIsLaterThanAllThatRedisKnowsWhateverTheClocksSay(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		for _, far := range []uint64{1, uint64(time.Now().Add(time.Hour).UnixMicro()), maxEpoch - 10, maxEpoch + 1, 1<<64 - 1} {
			for _, field := range []string{"all", "tenant:acme", "route:m"} {
				must(t, raw.Del(t.Context(), KeyEpochs).Err())
				running := freshAt(t, addr)
				reads(t, running)
				must(t, raw.HSet(t.Context(), KeyEpochs, field, far).Err())
				for _, s := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}, {Tenant: "acme"}} {
					before := reads(t, running)
					purgeAt(t, freshAt(t, addr), s)
					now := reads(t, running)
					if now == before {
						t.Errorf("%s is %d: a purge of %v leaves %+v", field, far, s, before)
					}
					if e := reads(t, freshAt(t, addr)); e != now {
						t.Errorf("%s is %d: who starts now is at %+v, the others at %+v", field, far, e, now)
					}
				}
			}
		}
	})
}

func TestPurgesThatAreTooManyToTellApartBecomeOneOfEverything(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, c *redis.Client) {
		fields := []string{"all", "1"}
		for i := range maxEpochs - 1 {
			fields = append(fields, fmt.Sprintf("tenant:t%d", i), "2")
		}
		must(t, c.HSet(t.Context(), KeyEpochs, fields).Err())
		s := freshAt(t, addr)
		reads(t, s)
		if purgeAt(t, s, Scope{Tenant: "t7"}) {
			t.Error("a field that was there needs no room")
		}
		if !purgeAt(t, s, Scope{Tenant: "another"}) {
			t.Error("it is not told that everything was purged")
		}
		if got := fieldsAt(t, c); len(got) != 1 || got[all] == 0 {
			t.Errorf("%d fields", len(got))
		}
	})
}

func TestWhatRedisLostIsWrittenAgainByThoseThatKnowIt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		old := freshAt(t, addr)
		reads(t, old)
		for name, lose := range map[string]func() error{
			"the hash is gone":   func() error { return raw.Del(t.Context(), KeyEpochs).Err() },
			"another type":       func() error { return raw.Set(t.Context(), KeyEpochs, "x", 0).Err() },
			"a tenant is gone":   func() error { return raw.HDel(t.Context(), KeyEpochs, "tenant:acme").Err() },
			"a tenant is behind": func() error { return raw.HSet(t.Context(), KeyEpochs, "tenant:acme", 5).Err() },
			"a route is gone":    func() error { return raw.HDel(t.Context(), KeyEpochs, "route:m").Err() },
			"all is gone":        func() error { return raw.HDel(t.Context(), KeyEpochs, "all").Err() },
			"all is behind":      func() error { return raw.HSet(t.Context(), KeyEpochs, "all", 5).Err() },
		} {
			for _, s := range []Scope{{Tenant: "acme"}, {Route: "m"}} {
				purgeAt(t, old, s)
			}
			before := reads(t, old)
			must(t, lose())
			if now := reads(t, old); now != before {
				t.Errorf("%s: went from %+v to %+v", name, before, now)
			}
			if e := reads(t, freshAt(t, addr)); e != before {
				t.Errorf("%s: who starts later is at %+v, the others at %+v", name, e, before)
			}
		}
	})
}

func TestWhatNobodyKnowsAnyMoreOrMakesNoSenseIsAPurgeOfEverything(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		many := map[string]any{}
		for i := range maxEpochs + 1 {
			many[fmt.Sprintf("tenant:t%d", i)] = 1
		}
		for name, spoil := range map[string]map[string]any{
			"lost with all who knew it": nil,
			"no number":                 {"all": "soon"},
			"negative":                  {"tenant:a": "-1"},
			"unknown field":             {"model:a": "1"},
			"no name":                   {"tenant:": "1"},
			"more than all":             {"all:x": "1"},
			"a long name":               {"tenant:" + strings.Repeat("a", 65): "1"},
			"too many":                  many,
		} {
			s := freshAt(t, addr)
			purgeAt(t, s, Scope{Tenant: "acme"})
			before := reads(t, s)
			if spoil == nil {
				must(t, raw.Del(t.Context(), KeyEpochs).Err())
				s = freshAt(t, addr)
			} else {
				must(t, raw.HSet(t.Context(), KeyEpochs, spoil).Err())
			}
			if now := reads(t, s); now.All <= before.All || now.Tenant != 0 {
				t.Errorf("%s: from %+v to %+v", name, before, now)
			}
			if got := count(s.metrics.refused, refusedEpochs); (got > 0) != (spoil != nil) {
				t.Errorf("%s: %d refused", name, got)
			}
		}
	})
}

func TestWithoutReadingsWhatIsSharedRestsAfterASecondAndCopiesAfterTen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{Redis: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})})
		defer func() { _ = s.redis.Close() }()
		if _, ok := s.Epochs("a", "m"); ok || s.Hears() {
			t.Error("before anything was read")
		}
		s.ReadEpochs(map[string]string{"all": "3"}, nil, time.Now())
		for _, want := range []struct {
			after     time.Duration
			hears, ok bool
		}{{0, true, true}, {time.Second, true, true}, {time.Nanosecond, false, true}, {9*time.Second - 1, false, true}, {1, false, false}} {
			time.Sleep(want.after)
			if e, ok := s.Epochs("a", "m"); ok != want.ok || s.Hears() != want.hears || ok && e.All != 3 {
				t.Errorf("after %v more: %+v, %t, %t", want.after, e, ok, s.Hears())
			}
		}
		if _, found := s.Look(t.Context(), keyNo(1)); found != ResultAway {
			t.Errorf("Redis is asked: %s", found)
		}
	})
}

func TestScopesThatRedisCouldNotBeToldAreBounded(t *testing.T) {
	s := NewStore(Options{Redis: redistest.Client(t, redistest.OnRequests("127.0.0.1:1"))})
	for i := range maxPending + 1 {
		if _, err := s.Purge(t.Context(), Scope{Tenant: fmt.Sprint("t", i)}); !errors.Is(err, ErrNotShared) {
			t.Fatal(err)
		}
	}
	if !maps.Equal(s.purges.pending, map[Scope]bool{all: true}) {
		t.Errorf("%d are pending", len(s.purges.pending))
	}
}

func TestWithoutRedisAPurgeIsOfThisReplica(t *testing.T) {
	s := NewStore(Options{})
	for _, scope := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}} {
		k := keyAt(s)
		if purgeAt(t, s, scope); keyAt(s) == k || !s.Hears() {
			t.Errorf("%v: nothing is purged", scope)
		}
	}
}

func TestWhereWritingIsNotAllowedTheCacheIsNotUsedWithoutPurges(t *testing.T) {
	srv := redistest.Start(t)
	grant := func(rights ...any) {
		t.Helper()
		must(t, srv.Client.Do(t.Context(), append([]any{"ACL", "SETUSER", "gate"}, rights...)...).Err())
	}
	grant("reset", "on", ">x", "~*", "+@all", "-exec")
	o := redistest.OnRequests(srv.Addr)
	o.Username, o.Password = "gate", "x"
	log := &bytes.Buffer{}
	s := NewStore(Options{Redis: redistest.Client(t, o), Budget: patient, Logger: zerolog.New(zerolog.SyncWriter(log))})
	stop := running(t, s)
	redistest.Within(t, 10*time.Second, "it is refused", func() bool { return count(s.metrics.refused, refusedEpochs) > 2 })
	if e, ok := s.Epochs("acme", "m"); ok {
		t.Errorf("%+v", e)
	}
	grant("+exec")
	redistest.Within(t, 10*time.Second, "purges are heard", func() bool { _, ok := s.Epochs("acme", "m"); return ok })
	stop()
	if n := strings.Count(log.String(), "NOPERM"); n != 1 || !strings.Contains(log.String(), "heard again") {
		t.Errorf("told %d times: %s", n, log)
	}
}

func FuzzEpochsNeverGoBack(f *testing.F) {
	f.Add("all=5 tenant:a=3 route:m=2", "all=4 tenant:a=1")
	f.Add("tenant:a=18446744073709551615", "all=1")
	f.Add("all=5 tenant:a=3", "all=6")
	f.Add("all=5 tenant:a=3", "")
	read := func(text string) map[Scope]uint64 {
		hash := map[string]string{}
		for _, field := range strings.Fields(text) {
			name, value, _ := strings.Cut(field, "=")
			hash[name] = value
		}
		of, _ := parseEpochs(hash)
		return of
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		known := revise(nil, read(first), time.UnixMicro(7))
		next := revise(&reading{epochs: known}, read(second), time.UnixMicro(7))
		for scope, epoch := range known {
			if max(next[scope], next[all]) < epoch {
				t.Errorf("from %v to %v", known, next)
			}
		}
		if !maps.Equal(revise(&reading{epochs: known}, next, time.UnixMicro(7)), next) {
			t.Errorf("%v is not what was known and read", next)
		}
		for scope := range next {
			if later := purge(next, scope, time.UnixMicro(7)); max(later[scope], later[all]) <= max(next[scope], next[all]) && later[all] <= next[all] {
				t.Errorf("%v: a purge of %v is %v", next, scope, later)
			}
		}
	})
}

func TestWhereNoExchangeReadsPurgesTheStoreDoes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		s, other := freshAt(t, addr), freshAt(t, addr)
		running(t, s)
		redistest.Within(t, 10*time.Second, "purges are heard", func() bool { _, ok := s.Epochs("acme", "m"); return ok && s.Hears() })
		before := reads(t, other)
		_, err := other.Purge(t.Context(), Scope{Tenant: "acme"})
		must(t, err)
		redistest.Within(t, 10*time.Second, "the purge of another is heard", func() bool { e, _ := s.Epochs("acme", "m"); return e.Tenant > before.Tenant })
	})
}

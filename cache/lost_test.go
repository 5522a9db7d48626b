package cache

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

// reads has a store read the epochs, and returns those of acme's requests to m.
func reads(t *testing.T, s *Store) Epochs {
	t.Helper()
	was := s.purges.reading.Load()
	redistest.Within(t, 10*time.Second, "purges are heard", func() bool { // a busy machine may need longer than a reading has
		s.readEpochs(t.Context())
		return s.purges.reading.Load() != was
	})
	e, _ := s.Epochs("acme", "m")
	return e
}

func TestAHashOfPurgesThatIsLostIsAPurgeOfEverything(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		old := storeAt(t, addr)
		reads(t, old)
		purge(t, raw, Scope{Tenant: "acme"})
		before := reads(t, old)
		must(t, raw.Del(t.Context(), keyEpochs).Err())
		now := reads(t, storeAt(t, addr)) // which knew nothing
		if now.All <= before.All {
			t.Errorf("%+v after %+v", now, before)
		}
		if KeyOf(&Parts{Tenant: "acme", Epochs: now}) == KeyOf(&Parts{Tenant: "acme", Epochs: before}) {
			t.Error("what was kept before can be found")
		}
		if e := reads(t, old); e != now {
			t.Errorf("who knew of the purge is at %+v, who did not at %+v", e, now)
		}
		if got := epochs(t, raw); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestAHashThatIsLostToAClockThatIsBehindIsAPurgeOfEverything(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		old, young := storeAt(t, addr), storeAt(t, addr)
		ahead := uint64(time.Now().Add(maxAhead / 2).UnixMicro())
		must(t, raw.HSet(t.Context(), keyEpochs, "all", ahead, "tenant:acme", ahead).Err())
		reads(t, old)
		must(t, raw.Del(t.Context(), keyEpochs).Err())
		first := reads(t, young)
		now := reads(t, old)
		if now.All <= ahead || first.All >= ahead {
			t.Errorf("%+v, and %+v by a clock that is behind %d", now, first, ahead)
		}
		if e := reads(t, young); e != now {
			t.Errorf("%+v and %+v", e, now)
		}
	})
}

func TestAReplicaTellsWhatRedisLostToThoseThatStartLater(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		old := storeAt(t, addr)
		reads(t, old)
		for name, lose := range map[string]func() error{
			"a tenant is gone":   func() error { return raw.HDel(t.Context(), keyEpochs, "tenant:acme").Err() },
			"a tenant is behind": func() error { return raw.HSet(t.Context(), keyEpochs, "tenant:acme", 5).Err() },
			"a route is gone":    func() error { return raw.HDel(t.Context(), keyEpochs, "route:m").Err() },
			"all is gone":        func() error { return raw.HDel(t.Context(), keyEpochs, "all").Err() },
			"all is behind":      func() error { return raw.HSet(t.Context(), keyEpochs, "all", 5).Err() },
		} {
			for _, s := range []Scope{{Tenant: "acme"}, {Route: "m"}} {
				purge(t, raw, s)
			}
			before := reads(t, old)
			must(t, lose())
			now := reads(t, old)
			if now.All <= before.All {
				t.Errorf("%s: went from %+v to %+v", name, before, now)
			}
			if e := reads(t, storeAt(t, addr)); e != now {
				t.Errorf("%s: who starts later is at %+v, the others at %+v", name, e, now)
			}
			if e := reads(t, old); e != now {
				t.Errorf("%s: restored again, from %+v to %+v", name, now, e)
			}
		}
	})
}

func TestReplicasThatStartAtOnceAgreeWhenEverythingWasPurged(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		must(t, raw.ScriptFlush(t.Context()).Err())
		const replicas = 8
		var all sync.WaitGroup
		var got [replicas]Epochs
		for i := range replicas {
			s := storeAt(t, addr)
			all.Go(func() {
				redistest.Within(t, 10*time.Second, "purges are heard", func() bool {
					s.readEpochs(t.Context())
					e, ok := s.Epochs("acme", "m")
					got[i] = e
					return ok
				})
			})
		}
		all.Wait()
		for _, e := range got {
			if e.All == 0 || e != got[0] {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// guarded is a store whose user has rights of its own, with what it logs.
func guarded(t *testing.T, srv *redistest.Server, rights ...any) (*Store, *bytes.Buffer) {
	t.Helper()
	grant(t, srv, rights...)
	o := redistest.OnRequests(srv.Addr)
	o.Username, o.Password = "gate", "x"
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patient(), patient(), patient()
	log := &bytes.Buffer{}
	return NewStore(Options{Redis: redistest.Client(t, o), Budget: patient, Logger: zerolog.New(log)}), log
}

func grant(t *testing.T, srv *redistest.Server, rights ...any) {
	t.Helper()
	must(t, srv.Client.Do(t.Context(), append([]any{"ACL", "SETUSER", "gate"}, rights...)...).Err())
}

func TestWhereTheScriptIsNotAllowedTheCacheIsNotUsedWithoutPurges(t *testing.T) {
	srv := redistest.Start(t)
	s, log := guarded(t, srv, "reset", "on", ">x", "~*", "+@all", "-evalsha")
	for range 3 {
		s.readEpochs(t.Context())
	}
	if e, ok := s.Epochs("acme", "m"); ok {
		t.Errorf("%+v", e)
	}
	if n := strings.Count(log.String(), "NOPERM"); n != 1 {
		t.Errorf("told %d times: %s", n, log)
	}
	grant(t, srv, "+evalsha")
	if e := reads(t, s); e.All == 0 || !strings.Contains(log.String(), "heard again") {
		t.Errorf("%+v, told %s", e, log)
	}
}

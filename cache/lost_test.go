package cache

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
)

// reads has a store read the epochs once, and returns those of acme's requests to m.
func reads(t *testing.T, s *Store) Epochs {
	t.Helper()
	s.readEpochs(t.Context())
	e, ok := s.Epochs("acme", "m")
	if !ok {
		t.Fatal("purges are not heard")
	}
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
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
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
		for _, s := range []Scope{{Tenant: "acme"}, {Route: "m"}} {
			purge(t, raw, s)
		}
		before := reads(t, old)
		for name, lose := range map[string]func() error{
			"a tenant is gone":   func() error { return raw.HDel(t.Context(), keyEpochs, "tenant:acme").Err() },
			"a tenant is behind": func() error { return raw.HSet(t.Context(), keyEpochs, "tenant:acme", 5).Err() },
			"a route is gone":    func() error { return raw.HDel(t.Context(), keyEpochs, "route:m").Err() },
			"all is gone":        func() error { return raw.HDel(t.Context(), keyEpochs, "all").Err() },
			"all is behind":      func() error { return raw.HSet(t.Context(), keyEpochs, "all", 5).Err() },
		} {
			must(t, lose())
			now := reads(t, old)
			if now == before || now.All < before.All || now.All == before.All && (now.Tenant < before.Tenant || now.Route < before.Route) {
				t.Errorf("%s: went from %+v to %+v", name, before, now)
			}
			if e := reads(t, storeAt(t, addr)); e != now {
				t.Errorf("%s: who starts later is at %+v, the others at %+v", name, e, now)
			}
			if e := reads(t, old); e != now {
				t.Errorf("%s: restored again, from %+v to %+v", name, now, e)
			}
			before = now
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

func TestWhatIsRestoredIsBoundAsPurgesAre(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		tenants := func(name string, n int) map[string]any {
			fields := map[string]any{}
			for i := range n {
				fields[fmt.Sprintf("tenant:%s%d", name, i)] = 7
			}
			return fields
		}
		must(t, raw.HSet(t.Context(), keyEpochs, tenants("a", maxEpochs)).Err())
		old := storeAt(t, addr)
		first := reads(t, old)
		if got := epochs(t, raw); len(got) != 1 {
			t.Errorf("%d fields, full before it was said when everything was purged", len(got))
		}
		const lost = 2*maxRestored + 88
		must(t, raw.HSet(t.Context(), keyEpochs, tenants("a", lost)).Err())
		reads(t, old)
		must(t, raw.Del(t.Context(), keyEpochs).Err())
		must(t, raw.HSet(t.Context(), keyEpochs, "all", first.All).Err())
		for i, want := range []int{maxRestored, 2 * maxRestored, lost, lost} {
			reads(t, old)
			if got := epochs(t, raw); len(got) != 1+want {
				t.Errorf("%d fields after %d readings", len(got), i+1)
			}
		}
		must(t, raw.Del(t.Context(), keyEpochs).Err())
		must(t, raw.HSet(t.Context(), keyEpochs, tenants("b", maxEpochs-1)).Err())
		must(t, raw.HSet(t.Context(), keyEpochs, "all", first.All).Err())
		now := reads(t, old)
		if got := epochs(t, raw); len(got) != 1 || now.All <= first.All {
			t.Errorf("%d fields, from %+v to %+v: more than there may be is everything", len(got), first, now)
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

func TestWhereTheScriptIsNotAllowedPurgesAreHeardAndNotRestored(t *testing.T) {
	srv := redistest.Start(t)
	raw := srv.Client
	for _, denied := range []string{"evalsha", "script|load", "time", "hset"} {
		must(t, raw.FlushAll(t.Context()).Err())
		must(t, raw.ScriptFlush(t.Context()).Err())
		s, log := guarded(t, srv, "reset", "on", ">x", "~*", "+@all", "-"+denied)
		for range 3 {
			if e := reads(t, s); e != (Epochs{}) {
				t.Errorf("-%s: %+v before any purge", denied, e)
			}
		}
		purge(t, raw, Scope{Tenant: "acme"})
		must(t, raw.ScriptFlush(t.Context()).Err())
		before := reads(t, s)
		must(t, raw.Del(t.Context(), keyEpochs).Err())
		if e := reads(t, s); e != before || e.Tenant == 0 {
			t.Errorf("-%s: from %+v to %+v", denied, before, e)
		}
		if n := strings.Count(log.String(), "is not allowed"); n != 1 {
			t.Errorf("-%s: told %d times: %s", denied, n, log)
		}
		grant(t, srv, "+"+denied)
		if e := reads(t, s); e.All == 0 {
			t.Errorf("-%s: %+v once it is granted", denied, e)
		}
	}
}

func TestARedisThatCannotSayWhenEverythingWasPurgedIsNotBelieved(t *testing.T) {
	srv := redistest.Start(t)
	raw := srv.Client
	s, log := guarded(t, srv, "reset", "on", ">x", "~*", "+@all")
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 3 {
		s.readEpochs(t.Context())
	}
	if e, ok := s.Epochs("acme", "m"); ok {
		t.Errorf("%+v", e)
	}
	if n := strings.Count(log.String(), "OOM"); n != 1 {
		t.Errorf("told %d times: %s", n, log)
	}
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if e := reads(t, s); e.All == 0 || !strings.Contains(log.String(), "heard again") {
		t.Errorf("%+v, told %s", e, log)
	}
}

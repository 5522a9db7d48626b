package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// exchange is where replicas tell each other of purges: what Redis has not, as far as a replica knows.
type exchange struct {
	told  map[string]string
	taken map[*Store]map[string]string
	away  bool
}

func newExchange() *exchange {
	return &exchange{told: map[string]string{}, taken: map[*Store]map[string]string{}}
}

// join makes a replica, whose now is ahead by so much.
func (e *exchange) join(ahead time.Duration) (s *Store) {
	s = NewStore(Options{
		Share: func(context.Context) error {
			if e.away {
				return errors.New("Redis is away")
			}
			maps.Copy(e.told, s.Tell())
			return nil
		},
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	e.tick(s)
	return s
}

// tick is one exchange of replicas, as the fleet makes it.
func (e *exchange) tick(all ...*Store) {
	for range 2 {
		for _, s := range all {
			if e.away {
				continue
			}
			for field, text := range s.Tell() {
				if e.taken[s][field] != text {
					e.told[field] = text
				}
			}
			e.taken[s] = maps.Clone(e.told)
			for field, text := range e.told {
				s.Take(field, text, 0)
			}
			s.Heard(s.now())
		}
	}
}

// epochsAt are those of acme's requests to m.
func epochsAt(s *Store) Epochs {
	e, _ := s.Epochs("acme", "m")
	return e
}

// purgeAt has a store purge.
func purgeAt(t *testing.T, s *Store, scope Scope) (everything bool) {
	t.Helper()
	everything, err := s.Purge(t.Context(), scope)
	must(t, err)
	return everything
}

func TestAPurgeReachesAllReplicasAndIsLaterThanAllWhateverTheClocksSay(t *testing.T) {
	x := newExchange()
	all := []*Store{x.join(0), x.join(-time.Hour), x.join(time.Hour)}
	x.tick(all...)
	for i, scope := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}, {Tenant: "acme"}, {}, {Route: "m"}} {
		before := epochsAt(all[0])
		other, _ := all[2].Epochs("globex", "n")
		if purgeAt(t, all[i%3], scope) || epochsAt(all[i%3]) == before {
			t.Errorf("%v: the replica that purges goes on", scope)
		}
		x.tick(all...)
		for _, s := range append(all, x.join(0)) {
			if now := epochsAt(s); now == before || now != epochsAt(all[0]) {
				t.Errorf("%v: from %+v to %+v", scope, before, now)
			}
		}
		if now, _ := all[2].Epochs("globex", "n"); (now != other) != (scope == Scope{}) {
			t.Errorf("%v: another tenant's went from %+v to %+v", scope, other, now)
		}
	}
}

func TestAPurgeWithoutRedisIsInForceHereAndEverywhereOnceItReturns(t *testing.T) {
	x := newExchange()
	here, there := x.join(0), x.join(0)
	x.tick(here, there)
	before := epochsAt(there)
	x.away = true
	if _, err := here.Purge(t.Context(), Scope{Tenant: "acme"}); !errors.Is(err, ErrNotShared) || epochsAt(here) == before {
		t.Errorf("%v, %+v", err, epochsAt(here))
	}
	x.away = false
	if x.tick(here, there); epochsAt(there) == before || epochsAt(there) != epochsAt(here) {
		t.Errorf("%+v and %+v", epochsAt(here), epochsAt(there))
	}
}

func TestWhatRedisLostIsToldAgainByThoseThatKnowIt(t *testing.T) {
	x := newExchange()
	s := x.join(0)
	for name, lose := range map[string]func(){
		"all is lost":        func() { clear(x.told) },
		"a tenant is gone":   func() { delete(x.told, "tenant:acme") },
		"a tenant is behind": func() { x.told["tenant:acme"] = "5" },
		"all is behind":      func() { x.told["all"] = "5" },
	} {
		purgeAt(t, s, Scope{Tenant: "acme"})
		before := epochsAt(s)
		lose()
		if x.tick(s); epochsAt(s) != before || epochsAt(x.join(0)) != before {
			t.Errorf("%s: from %+v to %+v, who starts later is at %+v", name, before, epochsAt(s), epochsAt(x.join(0)))
		}
	}
}

func TestWhatNobodyKnowsAnyMoreOrMakesNoSenseIsAPurgeOfEverything(t *testing.T) {
	for name, spoil := range map[string][2]string{
		"lost with all who knew it": {}, "no number": {"all", "soon"}, "negative": {"tenant:a", "-1"}, "unknown field": {"model:a", "1"}, "no name": {"tenant:", "1"},
		"more than all": {"all:x", "1"}, "a long name": {"tenant:" + strings.Repeat("a", 65), "1"}, "too late": {"all", "18446744073709551615"},
	} {
		x := newExchange()
		s := x.join(0)
		purgeAt(t, s, Scope{Tenant: "acme"})
		before := epochsAt(s)
		if spoil[0] == "" {
			clear(x.told)
			s = x.join(time.Minute)
		} else {
			s.Take(spoil[0], spoil[1], 0)
		}
		if now := epochsAt(s); now.All <= before.All || now.Tenant != 0 {
			t.Errorf("%s: from %+v to %+v", name, before, now)
		}
		if got := count(s.metrics.refused, refusedEpochs); (got > 0) != (spoil[0] != "") {
			t.Errorf("%s: %d refused", name, got)
		}
	}
}

func TestPurgesThatAreTooManyToTellApartBecomeOneOfEverything(t *testing.T) {
	x := newExchange()
	s := x.join(0)
	for i := range maxEpochs - 1 {
		s.Take(fmt.Sprintf("tenant:t%d", i), fmt.Sprint(time.Now().UnixMicro()), 0)
	}
	if purgeAt(t, s, Scope{Tenant: "t7"}) {
		t.Error("a scope that was there needs no room")
	}
	if !purgeAt(t, s, Scope{Tenant: "another"}) || len(s.Tell()) != 1 {
		t.Errorf("%d scopes, and it is not told that everything was purged", len(s.Tell()))
	}
}

func TestWithoutReadingsWhatIsSharedRestsAfterASecondAndCopiesAfterTen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Options{Redis: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Share: func(context.Context) error { return nil }})
		defer func() { _ = s.redis.Close() }()
		if _, ok := s.Epochs("a", "m"); ok || s.Hears() {
			t.Error("before anything was read")
		}
		s.Take("all", fmt.Sprint(uint64(maxEpoch)), 0)
		s.Heard(time.Now())
		for _, want := range []struct {
			after     time.Duration
			hears, ok bool
		}{{0, true, true}, {time.Second, true, true}, {time.Nanosecond, false, true}, {9*time.Second - 1, false, true}, {1, false, false}} {
			time.Sleep(want.after)
			if e, ok := s.Epochs("a", "m"); ok != want.ok || s.Hears() != want.hears || ok && e.All != maxEpoch {
				t.Errorf("after %v more: %+v, %t, %t", want.after, e, ok, s.Hears())
			}
		}
		if _, found := s.Look(t.Context(), keyNo(1)); found != ResultAway {
			t.Errorf("Redis is asked: %s", found)
		}
	})
}

func TestWithoutRedisAPurgeIsOfThisReplica(t *testing.T) {
	s := NewStore(Options{})
	for _, scope := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}} {
		before := epochsAt(s)
		if purgeAt(t, s, scope); epochsAt(s) == before || !s.Hears() {
			t.Errorf("%v: nothing is purged", scope)
		}
	}
}

func FuzzEpochsNeverGoBack(f *testing.F) {
	f.Add("all=5 tenant:a=3 route:m=2", "all=4 tenant:a=1")
	f.Add("tenant:a=18446744073709551615", "all=1")
	f.Add("all=5 tenant:a=3", "all=6")
	f.Add("all=5 tenant:a=3", "")
	f.Fuzz(func(t *testing.T, first, second string) {
		s := NewStore(Options{Now: func() time.Time { return time.UnixMicro(7) }})
		take := func(text string) map[Scope]uint64 {
			for _, field := range strings.Fields(text) {
				name, value, _ := strings.Cut(field, "=")
				s.Take(name, value, 0)
			}
			s.Heard(time.UnixMicro(7))
			return *s.purges.known.Load()
		}
		known := take(first)
		next := take(second)
		for scope, epoch := range known {
			if max(next[scope], next[all]) < epoch {
				t.Errorf("from %v to %v", known, next)
			}
		}
		for scope := range next {
			if later := purge(next, scope, time.UnixMicro(7)); max(later[scope], later[all]) <= max(next[scope], next[all]) && later[all] <= next[all] {
				t.Errorf("%v: a purge of %v is %v", next, scope, later)
			}
		}
	})
}

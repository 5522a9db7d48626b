package cache

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestAPurgeIsHeardOfAndNeverGoesBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		s := storeAt(t, addr)
		if _, ok := s.Epochs("acme", "m"); ok {
			t.Error("before anything was read, purges cannot have been heard")
		}
		running(t, s)
		redistest.Within(t, 5*time.Second, "purges are heard", func() bool { _, ok := s.Epochs("acme", "m"); return ok })
		if e, _ := s.Epochs("acme", "m"); e.All == 0 || e != (Epochs{All: e.All}) {
			t.Errorf("%+v before any purge", e)
		}
		var slowest time.Duration
		for _, scope := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}, {Tenant: "acme"}} {
			before, _ := s.Epochs("acme", "m")
			other, _ := s.Epochs("globex", "n")
			purge(t, raw, scope)
			began := time.Now()
			redistest.Within(t, 5*time.Second, "it is heard", func() bool { now, ok := s.Epochs("acme", "m"); return ok && now != before })
			slowest = max(slowest, time.Since(began))
			if now, _ := s.Epochs("globex", "n"); (now != other) != (scope == Scope{}) {
				t.Errorf("%+v: another tenant's went from %+v to %+v", scope, other, now)
			}
		}
		if slowest > 2*EpochsInterval+200*time.Millisecond { // a machine that stalls
			t.Errorf("a purge was heard of after %v", slowest)
		}
		t.Logf("the slowest was heard of after %v", slowest)
		held, _ := s.Epochs("acme", "m")
		must(t, raw.HSet(t.Context(), keyEpochs, "tenant:acme", 1).Err())
		must(t, raw.HSet(t.Context(), keyEpochs, "tenant:marker", 7).Err())
		redistest.Within(t, 5*time.Second, "the change is read", func() bool { e, _ := s.Epochs("marker", ""); return e.Tenant == 7 })
		if now, ok := s.Epochs("acme", "m"); !ok || now.All != held.All || now.Tenant <= held.Tenant {
			t.Errorf("what was lost is not purged again: from %+v to %+v", held, now)
		}
	})
}

func TestWhatIsNoHashOfPurgesLeavesTheLastGoodOneForASecond(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		ctx := t.Context()
		many := map[string]any{}
		for i := range maxEpochs + 1 {
			many[fmt.Sprintf("tenant:t%d", i)] = 1
		}
		for name, spoil := range map[string]func() error{
			"another type":  func() error { return raw.Set(ctx, keyEpochs, "x", 0).Err() },
			"no number":     func() error { return raw.HSet(ctx, keyEpochs, "all", "soon").Err() },
			"negative":      func() error { return raw.HSet(ctx, keyEpochs, "tenant:a", "-1").Err() },
			"unknown field": func() error { return raw.HSet(ctx, keyEpochs, "model:a", "1").Err() },
			"a long name":   func() error { return raw.HSet(ctx, keyEpochs, "tenant:"+strings.Repeat("a", 65), "1").Err() },
			"too many":      func() error { return raw.HSet(ctx, keyEpochs, many).Err() },
		} {
			must(t, raw.Del(ctx, keyEpochs).Err())
			s := storeAt(t, addr)
			var hand clock
			s.now = hand.now
			must(t, raw.HSet(ctx, keyEpochs, "all", 5).Err())
			s.readEpochs(ctx)
			must(t, raw.Del(ctx, keyEpochs).Err())
			must(t, spoil())
			for range 3 {
				s.readEpochs(ctx)
			}
			if e, ok := s.Epochs("a", "m"); !ok || e != (Epochs{All: 5}) {
				t.Errorf("%s: %+v, %t", name, e, ok)
			}
			hand.add(MaxEpochAge + 1)
			if _, ok := s.Epochs("a", "m"); ok {
				t.Errorf("%s: believed for longer than a second", name)
			}
			if got := s.Stats().Refused[refusedEpochs]; got != 3 || !s.purges.refusalLogged {
				t.Errorf("%s: counted %d times, told %t", name, got, s.purges.refusalLogged)
			}
			purge(t, raw, Scope{})
			s.readEpochs(ctx)
			if e, ok := s.Epochs("a", "m"); !ok || e.All <= 5 || s.purges.refusalLogged {
				t.Errorf("%s: a purge of everything does not mend it: %+v, %t", name, e, ok)
			}
		}
	})
}

func TestAReplicaThatCannotHearPurgesKnowsItAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{control: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), now: time.Now}
		defer func() { _ = s.control.Close() }()
		s.purges.reading.Store(&epochReading{requestedAt: time.Now(), all: 3})
		time.Sleep(MaxEpochAge)
		if _, ok := s.Epochs("a", "m"); !ok {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := s.Epochs("a", "m"); ok {
			t.Error("too late")
		}
	})
}

func TestEpochsStayBoundedAndNeverRepeatWhateverHandsDo(t *testing.T) {
	var k *epochReading
	seen := map[uint64]bool{} // of All with which tenant x was unknown after it had been known
	for i := range 40 {
		hash := map[string]string{"all": "9"}
		for j := range maxEpochs - 1 {
			hash[fmt.Sprintf("tenant:%d-%d", i, j)] = strconv.Itoa(i + 1)
		}
		next, err := k.merge(hash, time.Now())
		must(t, err)
		if n := len(next.tenants) + len(next.routes); n > 2*maxEpochs {
			t.Fatalf("%d are known", n)
		}
		if k != nil && next.all < k.all {
			t.Fatalf("all went from %d to %d", k.all, next.all)
		}
		if k != nil && len(next.tenants) < len(k.tenants) {
			if seen[next.all] || next.all == k.all {
				t.Fatalf("what was known was dropped without a new epoch of all, %d", next.all)
			}
			seen[next.all] = true
		}
		k = next
	}
	if len(seen) == 0 {
		t.Error("nothing was dropped")
	}
}

func FuzzEpochs(f *testing.F) {
	f.Add("all=5 tenant:a=3 route:m=2", "all=4 tenant:a=1", "a", "m")
	f.Add("tenant:a=18446744073709551615", "all=1", "a", "m")
	f.Add("tenant:=1", "x", "", "")
	f.Add("all=9007199254740992 route:m=2", "all=9007199254740992 route:m=1", "", "m")
	f.Add("all=5 tenant:a=3", "tenant:a=4", "a", "")
	read := func(text string) map[string]string {
		hash := map[string]string{}
		for _, field := range strings.Fields(text) {
			name, value, _ := strings.Cut(field, "=")
			hash[name] = value
		}
		return hash
	}
	f.Fuzz(func(t *testing.T, first, second, tenant, route string) {
		var none *epochReading
		a, err := none.merge(read(first), time.Time{})
		if err != nil {
			if a != nil || !errors.Is(err, errEpochs) {
				t.Errorf("%+v, %v", a, err)
			}
			return
		}
		tenants := maps.Clone(a.tenants)
		b, err := a.merge(read(second), time.Time{})
		if err != nil {
			return
		}
		if !maps.Equal(tenants, a.tenants) {
			t.Error("what was known has changed")
		}
		args := b.missing(read(second))
		if len(args) > 2+2*maxRestored || len(args)%2 == 1 {
			t.Errorf("%d arguments", len(args))
		}
		if said, err := none.merge(read(second), time.Time{}); args == nil && (err != nil || said.all != b.all || said.tenants[tenant] != b.tenants[tenant] || said.routes[route] != b.routes[route]) {
			t.Errorf("%+v has lost something of %+v: %v", said, b, err)
		}
		if b.all < a.all || b.all == a.all && (b.tenants[tenant] < a.tenants[tenant] || b.routes[route] < a.routes[route]) {
			t.Errorf("went back from %+v to %+v", a, b)
		}
	})
}

package cache

import (
	"errors"
	"fmt"
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
		redistest.Within(t, 5*time.Second, "the change is read", func() bool { e, ok := s.Epochs("acme", "m"); return ok && e != held })
		if now, ok := s.Epochs("acme", "m"); !ok || now.All <= held.All {
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
			if got := count(s.metrics.refused, refusedEpochs); got != 3 || !s.purges.refusalLogged {
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

func FuzzEpochs(f *testing.F) {
	f.Add("all=5 tenant:a=3 route:m=2", "all=4 tenant:a=1")
	f.Add("tenant:a=18446744073709551615", "all=1")
	f.Add("all=5 tenant:a=3", "all=6")
	read := func(text string) map[string]string {
		hash := map[string]string{}
		for _, field := range strings.Fields(text) {
			name, value, _ := strings.Cut(field, "=")
			hash[name] = value
		}
		return hash
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		a, err := parseEpochs(read(first), time.Time{})
		if err != nil && (a != nil || !errors.Is(err, errEpochs)) {
			t.Errorf("%+v, %v", a, err)
		}
		b, err2 := parseEpochs(read(second), time.Time{})
		if err != nil || err2 != nil || a.lostIn(b) || b.all > a.all {
			return
		}
		for name, epoch := range a.tenants {
			if b.tenants[name] < epoch {
				t.Errorf("went back from %+v to %+v", a, b)
			}
		}
	})
}

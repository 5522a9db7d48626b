package cache

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func epochs(t *testing.T, c *redis.Client) map[string]int64 {
	t.Helper()
	fields, err := c.HGetAll(t.Context(), keyEpochs).Result()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for field, value := range fields {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Errorf("%s: %v", field, err)
		}
		out[field] = n
	}
	return out
}

func purge(t *testing.T, c *redis.Client, s Scope) (all bool) {
	t.Helper()
	all, err := Purge(t.Context(), c, s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAPurgeIsNotedByRedisClockAndNeverGoesBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, _ string, c *redis.Client) {
		before := time.Now()
		last := map[string]int64{}
		for range 3 { // a clock that stands still, or goes back, between them
			for s, field := range map[Scope]string{{Tenant: "acme"}: "tenant:acme", {Route: "llama-3:large"}: "route:llama-3:large"} {
				if purge(t, c, s) {
					t.Errorf("%v became one of everything", s)
				}
				now := epochs(t, c)[field]
				if now <= last[field] {
					t.Errorf("%s went from %d to %d", field, last[field], now)
				}
				if now < before.Add(-time.Minute).UnixMicro() || now > before.Add(time.Minute).UnixMicro() {
					t.Errorf("%s is %d, no time of now in µs", field, now)
				}
				last[field] = now
			}
		}
		ahead := time.Now().Add(maxAhead / 2).UnixMicro()
		if err := c.HSet(t.Context(), keyEpochs, "tenant:acme", ahead).Err(); err != nil {
			t.Fatal(err)
		}
		purge(t, c, Scope{Tenant: "acme"})
		if got := epochs(t, c)["tenant:acme"]; got != ahead+1 {
			t.Errorf("behind a clock that was ahead: %d, want %d", got, ahead+1)
		}
		if purge(t, c, Scope{}) {
			t.Error("who purges everything need not be told so")
		}
		if got := epochs(t, c); len(got) != 1 || got["all"] == 0 {
			t.Errorf("after a purge of everything: %v", got)
		}
	})
}

func TestPurgesThatAreTooManyToTellApartBecomeOneOfEverything(t *testing.T) {
	redistest.Each(t, func(t *testing.T, _ string, c *redis.Client) {
		var fields []string
		for i := range maxEpochs {
			fields = append(fields, fmt.Sprintf("tenant:t%d", i), "1")
		}
		if err := c.HSet(t.Context(), keyEpochs, fields).Err(); err != nil {
			t.Fatal(err)
		}
		if purge(t, c, Scope{Tenant: "t7"}) {
			t.Error("a field that was there needs no room")
		}
		if !purge(t, c, Scope{Tenant: "another"}) {
			t.Error("it is not told that everything was purged")
		}
		if got := epochs(t, c); len(got) != 1 || got["all"] == 0 {
			t.Errorf("%d fields", len(got))
		}
	})
}

func TestAnEpochAheadOfTheClockStopsNoPurge(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		for _, far := range []uint64{uint64(time.Now().Add(time.Hour).UnixMicro()), 1<<53 - 1, 1 << 53, 1<<64 - 1} {
			for _, field := range []string{"all", "tenant:acme", "route:m", "tenant:globex"} {
				running := storeAt(t, addr)
				reads(t, running)
				must(t, raw.HSet(t.Context(), keyEpochs, field, far).Err())
				reads(t, running)
				must(t, raw.HSet(t.Context(), keyEpochs, field, far).Err()) // again: nobody has heard of this one
				for _, s := range []Scope{{Tenant: "acme"}, {Route: "m"}, {}, {Tenant: "acme"}} {
					before := reads(t, running)
					purge(t, raw, s)
					if now := reads(t, running); now == before || now.All >= far {
						t.Errorf("%s is %d: a purge of %v changes %+v to %+v", field, far, s, before, now)
					}
					if e := reads(t, storeAt(t, addr)); e != reads(t, running) {
						t.Errorf("%s is %d: who starts now is at %+v", field, far, e)
					}
				}
			}
		}
	})
}

func TestAPurgeThatReplicasCannotHearIsAnError(t *testing.T) {
	redistest.Each(t, func(t *testing.T, _ string, c *redis.Client) {
		must(t, c.HSet(t.Context(), keyEpochs, "model:m", 1).Err())
		if _, err := Purge(t.Context(), c, Scope{Tenant: "acme"}); err == nil {
			t.Error("replicas refuse the hash, and the purge is said to have succeeded")
		}
		purge(t, c, Scope{})
	})
}

func TestAPurgeMendsAKeyThatIsNoHashOrHoldsNoNumber(t *testing.T) {
	redistest.Each(t, func(t *testing.T, _ string, c *redis.Client) {
		for _, broken := range []func() error{
			func() error { return c.Set(t.Context(), keyEpochs, "x", 0).Err() },
			func() error { return c.HSet(t.Context(), keyEpochs, "all", "soon").Err() },
			func() error { return c.HSet(t.Context(), keyEpochs, "all", "-1e300").Err() },
		} {
			if err := broken(); err != nil {
				t.Fatal(err)
			}
			purge(t, c, Scope{})
			if got := epochs(t, c); len(got) != 1 || got["all"] < time.Now().Add(-time.Minute).UnixMicro() {
				t.Errorf("%v", got)
			}
		}
	})
}

package app_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
)

// trips counts a client's round trips, but for those that make a connection.
type trips struct{ n atomic.Int64 }

func (c *trips) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if name := cmd.Name(); name == "hello" || name == "client" || name == "auth" || name == "select" {
			return
		}
	}
	c.n.Add(1)
}

// DialHook changes nothing.
func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline as one.
func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// client is one for requests to a Redis of the test's own. A busy machine is in its budget.
func (c *trips) client(t testing.TB, store *miniredis.Miniredis) redis.UniversalClient {
	t.Helper()
	store.HSet("foregate:settings", "limit.redis_timeout", "1s")
	client := connect.New(connect.OnRequests(connect.Background(connect.Options{Network: "tcp", Addrs: []string{store.Addr()}})))
	client.AddHook(c)
	t.Cleanup(func() { _ = client.Close() }) // only connections are lost
	return client
}

// hotPath is a replica whose loops do not run: what it does is on a request's way.
type hotPath struct {
	*app.App
	turn dispatch.Ticket
	try  func(pool.Admission) error
}

func newHotPath(t testing.TB, client redis.UniversalClient) *hotPath {
	t.Helper()
	file, err := config.Parse("hot", []byte(`
listen: 127.0.0.1:0
pools: {d: {model: d, backends: ["http://127.0.0.1:1"]}, t: {model: t, backends: ["http://127.0.0.1:1"]}}
routes: [{model: m, draft: d, target: t}]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.New(context.Background(), app.Options{File: file, Stores: stores.Stores{Control: client}, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return &hotPath{
		App:  r,
		turn: dispatch.Ticket{Route: "m", Pool: "t", Tenant: "acme", Class: int8(identity.Normal), Tokens: 900},
		try:  func(pool.Admission) error { return nil },
	}
}

func (h *hotPath) admit(ctx context.Context) error {
	_, err := h.Enter(ctx, h.turn, h.try)
	return err
}

func (h *hotPath) limited(ctx context.Context, l limits.Limit) error {
	g, err := h.Limiter.Reserve(ctx, limits.Request{Tenant: "acme", Tokens: 900, Limit: l})
	if err == nil {
		g.Settle(700)
	}
	return err
}

func (h *hotPath) broken(outcome error) error {
	permit, err := h.Breakers.Allow("t", "127.0.0.1-1")
	if err == nil {
		permit.Report(outcome)
	}
	return err
}

// all is what a request pays beside its backend.
func (h *hotPath) all(ctx context.Context, l limits.Limit) error {
	if err := h.limited(ctx, l); err != nil {
		return err
	}
	if err := h.admit(ctx); err != nil {
		return err
	}
	return h.broken(nil)
}

// BenchmarkHotPath is what a request pays for admission to a pool with room, for its
// tenant's limits, and for the breaker of its backend: no more than 5 µs in all.
func BenchmarkHotPath(b *testing.B) {
	var c trips
	h := newHotPath(b, c.client(b, miniredis.RunT(b)))
	ctx := b.Context()
	atOnce := limits.Limit{Concurrent: 100}
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"admission", func() error { return h.admit(ctx) }},
		{"limits/unlimited", func() error { return h.limited(ctx, limits.Limit{}) }},
		{"limits/concurrent", func() error { return h.limited(ctx, atOnce) }},
		{"breaker", func() error { return h.broken(nil) }},
		{"sum/unlimited", func() error { return h.all(ctx, limits.Limit{}) }},
		{"sum/concurrent", func() error { return h.all(ctx, atOnce) }},
	} {
		before := c.n.Load()
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := part.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
		if n := c.n.Load() - before; n > 0 {
			b.Errorf("%s: %d round trips to Redis", part.name, n)
		}
	}
	b.Run("sum/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := h.all(ctx, limits.Limit{}); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func TestAdmissionLimitsAndBreakersAskRedisOnceAtMostAndForALimitPerMinuteOnly(t *testing.T) {
	const requests = 100
	var c trips
	h := newHotPath(t, c.client(t, miniredis.RunT(t)))
	perMinute := limits.Limit{RPM: 1_000_000, TPM: 1_000_000_000, Concurrent: 100}
	for range 3 { // a connection, and the script
		_ = h.limited(t.Context(), perMinute) // what is late is counted here
	}
	bad := &engine.Failure{Kind: engine.Reset, Pool: "t", Backend: "127.0.0.1-1", Err: errors.New("reset")}
	for _, tc := range []struct {
		name             string
		do               func() error
		minimum, maximum int64
	}{
		{"no limit", func() error { return h.all(t.Context(), limits.Limit{}) }, 0, 0},
		{"so many at once", func() error { return h.all(t.Context(), limits.Limit{Concurrent: 100}) }, 0, 0},
		{"a limit per minute", func() error { return h.all(t.Context(), perMinute) }, 1, requests},
		{"a backend that fails", func() error { _ = h.broken(bad); return nil }, 0, 0}, // until its breaker opens, and on
	} {
		before := c.n.Load()
		for range requests {
			if err := tc.do(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		if n := c.n.Load() - before; n < tc.minimum || n > tc.maximum {
			t.Errorf("%s: %d round trips for %d requests, want %d to %d", tc.name, n, requests, tc.minimum, tc.maximum)
		}
	}
	if h.broken(nil) == nil {
		t.Error("the breaker did not open")
	}
}

// TestAWholeRequestAsksRedisOnceAtMostAndForALimitPerMinuteOnly counts what requests ask by
// the client that they wait for, from their first byte to their last.
func TestAWholeRequestAsksRedisOnceAtMostAndForALimitPerMinuteOnly(t *testing.T) {
	const requests = 20
	var control, request trips
	store := miniredis.RunT(t)
	sim := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: simScale})
	file, err := config.Parse("hot", fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools: {t: {model: %s, backends: [%q]}}
routes: [{model: m, target: t}]
tenants:
  - {id: free, keys_sha256: ["%x"]}
  - {id: counted, keys_sha256: ["%x"], rpm: 100000, concurrent: 50}
drain: {delay: 0s, grace: 1s}
`, simTarget, sim.URL(), sha256.Sum256([]byte("free's key")), sha256.Sum256([]byte("counted's key"))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.New(t.Context(), app.Options{File: file, Stores: stores.Stores{Control: control.client(t, store), Lookups: request.client(t, store)}, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(context.Background()) })
	apptest.Eventually(t, "the limiter has loaded its script", func() bool { return request.n.Load() > 0 })
	asks(t, r, "counted's key") // which loads it again where it is first
	for _, tc := range []struct {
		key              string
		minimum, maximum int64
	}{{"free's key", 0, 0}, {"counted's key", 1, requests}} {
		before := request.n.Load()
		for range requests {
			asks(t, r, tc.key)
		}
		if n := request.n.Load() - before; n < tc.minimum || n > tc.maximum {
			t.Errorf("%s: %d round trips for %d requests, want %d to %d", tc.key, n, requests, tc.minimum, tc.maximum)
		}
	}
}

// asks sends a request that is answered.
func asks(t *testing.T, r *app.App, key string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Addr().String()+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Cache-Control", "no-store")
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
}

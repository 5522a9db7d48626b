package app_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/loadtest/vllmsim"
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
	store.HSet("foregate:settings", "redis.timeout", "1s")
	client := connect.New(connect.OnRequests(connect.Background(connect.Options{Network: "tcp", Addrs: []string{store.Addr()}})))
	client.AddHook(c)
	t.Cleanup(func() { _ = client.Close() }) // only connections are lost
	return client
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

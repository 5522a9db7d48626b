package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
)

// sealed is a configuration with a file of seal keys.
func sealed(t *testing.T, more, keys string) string {
	t.Helper()
	return configFile(t, minConfig+more+fmt.Sprintf("cache: {seal_keys_file: %q}\n", secretFile(t, keys)))
}

// minConfig is a configuration of one route, whose backend nobody asks.
const minConfig = `listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {p: {model: m, backends: ["http://127.0.0.1:1"]}}
routes: [{model: m, target: p}]
drain: {delay: 0s, grace: 1s}
`

// Lines of a file of seal keys.
const (
	oneKey = "k1 0123456789abcdef0123456789abcdef\n"
)

func TestSealKeysThatAreNoneAreToldByCheckAndAtStart(t *testing.T) {
	for want, keys := range map[string]string{
		"cache.seal_keys_file: holds no secret; want lines \"ID SECRET\"":    "# none yet\n",
		"cache.seal_keys_file: line 2: the secret has 7 characters; want 32": oneKey + "k2 hunter2\n",
	} {
		file := sealed(t, "", keys)
		for _, command := range [][]string{{"check", file}, {"serve", "-c", file}} {
			status, out, errs := call(t, command...)
			if status != 1 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: status %d: %s%s, want %s", command[0], status, out, errs, want)
			}
			if strings.Contains(errs, "hunter2") || strings.Contains(errs, "/secret") {
				t.Errorf("%s: a secret may be told: %s", command[0], errs)
			}
		}
	}
}

// assembled is a replica of a configuration at the Redis that it names, not started. It logs nothing; more says
// what else it is made of.
func assembled(t *testing.T, f *config.File, more func(*app.Options)) (*app.App, stores.Stores) {
	t.Helper()
	store, stop, err := stores.Open(f.Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p := app.Options{File: f, Stores: store, Logger: zerolog.Nop()}
	more(&p)
	r, err := app.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r, store
}

// started has a replica serve until the test is over.
func started(t *testing.T, r *app.App) {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(context.WithoutCancel(t.Context())) })
}

// keeper assembles a replica with a cache at a Redis and runs it.
func keeper(t *testing.T, file string) *app.App {
	t.Helper()
	f, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r, store := assembled(t, f, func(p *app.Options) { p.Registerer = prometheus.NewRegistry() })
	started(t, r)
	apptest.Eventually(t, "it hears of purges", func() bool {
		_, ok := r.Cache.Epochs("acme", "m")
		return ok || r.Stores.Control == nil && store.Answers == nil
	})
	return r
}

// keeps has a replica keep an answer, and waits until it is there.
func keepAnswer(t *testing.T, r *app.App, k cache.Key) {
	t.Helper()
	done := make(chan struct{})
	r.Cache.Put(k, &cache.Entry{Created: time.Now(), Answer: []byte("an answer")}, time.Minute, func() { close(done) })
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not kept")
	}
}

func keyOf(tenant string) cache.Key { return cache.KeyOf(&cache.Parts{Tenant: tenant, Route: "m"}) }

func TestAnswersAreKeptWhereTheURLSaysAndNothingElseIs(t *testing.T) {
	t.Parallel()
	control, own := miniredis.RunT(t), miniredis.RunT(t)
	dir := "redis: {url: \"redis://" + control.Addr() + "\", cache_url: \"redis://" + own.Addr() + "\"}\n"
	r := keeper(t, sealed(t, dir, oneKey))
	keepAnswer(t, r, keyOf("acme"))
	apptest.Eventually(t, "it shares", func() bool { return control.Exists("foregate:{fg}:replicas") })
	if !own.Exists(keyOf("acme").Name()) || control.Exists(keyOf("acme").Name()) {
		t.Errorf("answers: %v, others: %v", own.Keys(), control.Keys())
	}
	for _, key := range own.Keys() {
		if !strings.HasPrefix(key, "foregate:cache:") {
			t.Errorf("%s is with the answers", key)
		}
	}
	if _, err := r.Cache.Purge(t.Context(), cache.Scope{Tenant: "acme"}); err != nil {
		t.Error(err)
	}
	if control.HGet("foregate:{fg}:epochs", "tenant:acme") == "" {
		t.Error("a purge is not noted with what replicas tell each other")
	}
}

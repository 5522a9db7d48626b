package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/tiers/fleet"
)

func TestTheStatsCommandAsksOneReplica(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/admin/cache" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(gateway.CacheView{
			Routes:       []gateway.CacheRoute{{Route: "llama-3", Requests: map[string]uint64{"hit": 300, "local": 90}}},
			LocalEntries: 812,
		})
	}))
	defer srv.Close()
	t.Setenv("FOREGATE_ADMIN", "")
	at := strings.TrimPrefix(srv.URL, "http://")
	file := configFile(t, "listen: 127.0.0.1:0\nadmin: "+at+"\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: m, target: p}]\n")
	for _, args := range [][]string{{"-c", file}, {"--admin", at}, {"--admin", srv.URL + "/", "-c", "/nowhere"}} {
		if status, out, errs := call(t, append([]string{"cache", "stats"}, args...)...); status != 0 || errs != "" || !strings.Contains(out, "300 hit, 90 local") {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
	status, out, _ := call(t, "cache", "stats", "-c", file, "--json")
	var v gateway.CacheView
	if err := json.Unmarshal([]byte(out), &v); err != nil || status != 0 || v.LocalEntries != 812 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
	if status, _, errs := call(t, "cache", "stats", "--admin", "http://me:s3cret@127.0.0.1:1"); status != 1 || strings.Contains(errs, "s3cret") || errs == "" {
		t.Errorf("status %d: %s", status, errs)
	}
}

// keeps writes answers of two tenants, and what is none.
func keeps(t *testing.T, c redis.Cmdable) {
	t.Helper()
	_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 30 {
			p.Set(t.Context(), fmt.Sprintf("%s{%d}", cache.TenantPrefix([]string{"acme", "globex"}[i%2]), i), "v", time.Hour)
		}
		p.Set(t.Context(), "other", "v", 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lives has a replica live at a Redis until the test ends, or leaves is called.
func lives(t *testing.T, c redis.UniversalClient) (leaves func()) {
	t.Helper()
	f, err := fleet.New(fleet.Options{Redis: c, Interval: func() time.Duration { return 100 * time.Millisecond }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx) // it returns nil
	}()
	leaves = func() { cancel(); <-ended }
	t.Cleanup(leaves)
	apptest.Eventually(t, "it lives", f.Sharing)
	return leaves
}

// at is a client of a miniredis.
func at(t *testing.T, m *miniredis.Miniredis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() }) // only connections are lost
	return c
}

// besides are the keys that no replica made.
func besides(m *miniredis.Miniredis) int {
	return len(slices.DeleteFunc(m.Keys(), func(key string) bool { return strings.HasPrefix(key, "foregate:{fg}:") }))
}

func TestAPurgeFromTheCommandLineTellsWhatItDid(t *testing.T) {
	m := miniredis.RunT(t)
	own := miniredis.RunT(t)
	here, there := at(t, m), at(t, own)
	lives(t, here)
	t.Setenv("FOREGATE_REDIS", "")
	live := "no replica serves these answers after a second; 1 live at single " + m.Addr() + "\n"
	const rest = "\nlisten: 127.0.0.1:0\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: llama-3, target: p}]\n"
	one := configFile(t, "redis: {url: \"redis://"+m.Addr()+"\"}"+rest)
	two := configFile(t, "redis: {url: \"redis://"+m.Addr()+"\", cache_url: \"redis://"+own.Addr()+"\"}"+rest)
	for _, c := range []struct {
		args      []string
		field     string
		result    string
		here, own int // keys that are left
	}{
		{[]string{"-c", one, "--tenant", "acme"}, "tenant:acme", "purged tenant acme: " + live + "15 answers were deleted\n", 16, 31},
		{[]string{"-c", one, "--route", "llama-3"}, "route:llama-3", "purged route llama-3: " + live + "nothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
		{[]string{"-c", one}, "all", "purged all: " + live + "30 answers were deleted\n", 1, 31},
		{[]string{"-c", one, "--sweep", "0s"}, "all", "purged all: " + live + "nothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
		{[]string{"-c", two, "--tenant", "globex"}, "tenant:globex", "purged tenant globex: " + live + "15 answers were deleted\n", 31, 16},
		{[]string{"--redis", "redis://" + m.Addr(), "--cache-redis", "redis://" + own.Addr()}, "all", "purged all: " + live + "30 answers were deleted\n", 31, 1},
		{[]string{"--redis", "redis://" + m.Addr(), "--route", "unknown-here"}, "route:unknown-here", "purged route unknown-here: " + live + "nothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
	} {
		m.FlushAll()
		own.FlushAll()
		keeps(t, here)
		keeps(t, there)
		status, out, errs := call(t, append([]string{"cache", "purge"}, c.args...)...)
		if status != 0 || out != c.result || errs != "" {
			t.Errorf("%v: status %d: %s%s", c.args, status, out, errs)
		}
		if got := m.HGet("foregate:{fg}:epochs", c.field); len(got) < 16 {
			t.Errorf("%v: the epoch is %q", c.args, got)
		}
		if here, there := besides(m), besides(own); here != c.here || there != c.own {
			t.Errorf("%v: %d and %d keys are left, want %d and %d", c.args, here, there, c.here, c.own)
		}
	}
}

func TestAPurgeThatMakesNoSenseIsRefusedBeforeAnythingIsDone(t *testing.T) {
	m := miniredis.RunT(t)
	t.Setenv("FOREGATE_REDIS", "")
	file := configFile(t, "listen: 127.0.0.1:0\nredis: {url: \"redis://"+m.Addr()+"\"}\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: llama-3, target: p}]\n")
	for want, args := range map[string][]string{
		"--tenant is empty; leave it out to purge everything":               {"-c", file, "--tenant", ""},
		"--route is empty; leave it out to purge everything":                {"-c", file, "--route="},
		"purge the tenant or the route, or both by two commands":            {"-c", file, "--tenant", "acme", "--route", "llama-3"},
		"a tenant's name is 1–64 of A-Z a-z 0-9 . _ : -":                    {"-c", file, "--tenant", "ac me"},
		"--route: there is no route llama-4; known are: llama-3":            {"-c", file, "--route", "llama-4"},
		"--sweep: want 0s … 10m0s":                                          {"-c", file, "--sweep", "11m"},
		"no Redis is named: give --redis URL, --config FILE or $FOREGATE_R": {"--tenant", "acme"},
	} {
		if status, out, errs := call(t, append([]string{"cache", "purge"}, args...)...); status != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
	if len(m.Keys()) > 0 {
		t.Errorf("%v", m.Keys())
	}
}

func TestAnEmbeddedRedisIsPurgedThroughItsReplica(t *testing.T) {
	var asked string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		_ = json.NewEncoder(w).Encode(gateway.PurgeResult{Purged: "tenant acme"})
	}))
	defer srv.Close()
	for _, section := range []string{"url: embedded", "url: none, cache_url: embedded"} {
		asked = ""
		file := configFile(t, "listen: 127.0.0.1:0\nadmin: "+strings.TrimPrefix(srv.URL, "http://")+"\nredis: {"+section+"}\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: m, target: p}]\n")
		status, out, errs := call(t, "cache", "purge", "-c", file, "--tenant", "acme")
		if status != 0 || out != "purged tenant acme: no replica serves these answers after a second\n" || errs != "" || asked != "POST /admin/cache/purge?tenant=acme" {
			t.Errorf("%s: status %d: %s%s, asked %s", section, status, out, errs, asked)
		}
	}
}

func TestAPurgeWhereNoReplicaLivesIsRefusedUnlessItIsForced(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	m := miniredis.RunT(t)
	keeps(t, at(t, m))
	url := "redis://" + m.Addr()
	refused := func(why string) {
		t.Helper()
		status, out, errs := call(t, "cache", "purge", "--redis", url, "--tenant", "acme")
		if status != 1 || out != "" || !strings.Contains(errs, "no replica lives at single "+m.Addr()+": is it the redis.url of the replicas? nothing was purged; --force purges all the same") {
			t.Errorf("%s: status %d: %s%s", why, status, out, errs)
		}
		if m.Exists("foregate:{fg}:epochs") || besides(m) != 31 {
			t.Errorf("%s: something was done: %v", why, m.Keys())
		}
	}
	refused("there never was one")
	_, _ = m.ZAdd("foregate:{fg}:replicas", float64(time.Now().Add(-2*time.Second).UnixMilli()), "dead")
	_, _ = m.ZAdd("foregate:{fg}:replicas", float64(time.Now().Add(time.Hour).UnixMilli()), "of-another-clock")
	refused("those that there were have died")
	leaves := lives(t, at(t, m))
	if status, out, errs := call(t, "cache", "purge", "--redis", url, "--route", "m"); status != 0 || !strings.Contains(out, "; 1 live at single ") || errs != "" {
		t.Errorf("where one lives: status %d: %s%s", status, out, errs)
	}
	m.Del("foregate:{fg}:epochs")
	leaves()
	refused("the last has left")
	status, out, errs := call(t, "cache", "purge", "--redis", url, "--tenant", "acme", "--force")
	if want := "purged tenant acme: replicas at single " + m.Addr() + ", if any live there, do not serve these answers after a second\n15 answers were deleted\n"; status != 0 || out != want || errs != "" {
		t.Errorf("forced: status %d: %s%s", status, out, errs)
	}
	m.Del("foregate:{fg}:replicas")
	_ = m.Set("foregate:{fg}:replicas", "no set")
	if status, out, errs := call(t, "cache", "purge", "--redis", url); status != 1 || out != "" || !strings.Contains(errs, "cannot be told: foregate:{fg}:replicas: WRONGTYPE") {
		t.Errorf("where it cannot be told: status %d: %s%s", status, out, errs)
	}
}

func TestPurgesUnderTheACLAreDoneByOperatorsAndByTheGatewayWhichDeletesNothing(t *testing.T) {
	t.Parallel()
	n := guardedRedis(t)
	keeps(t, n.raw)
	lives(t, n.raw)
	url := func(user string) string { return fmt.Sprintf("redis://%s:%s@%s/0", user, user, n.addr) }
	status, out, errs := call(t, "cache", "purge", "--redis", url("foregate"), "--tenant", "acme")
	if status != 0 || !strings.HasPrefix(out, "purged tenant acme: ") || !strings.Contains(errs, "note: 0 answers were deleted, the rest expire by themselves, within cache.ttl: NOPERM") {
		t.Errorf("the gateway's user: status %d: %s%s", status, out, errs)
	}
	status, out, errs = call(t, "cache", "purge", "--redis", url("operator"), "--tenant", "acme")
	if status != 0 || !strings.Contains(out, "15 answers were deleted") || errs != "" {
		t.Errorf("the operator's: status %d: %s%s", status, out, errs)
	}
	if left := n.do(t, "DBSIZE"); fmt.Sprint(left) != "18" { // 15 of the other tenant, another key, the epochs, the replicas
		t.Errorf("%v keys are left", left)
	}
	if status, _, errs := call(t, "cache", "purge", "--redis", url("exporter")); status != 1 || !strings.Contains(errs, "NOPERM") {
		t.Errorf("the exporter's: status %d: %s", status, errs)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
)

// busy is the cache of a replica that has seen it all.
func busy() gateway.CacheView {
	return gateway.CacheView{
		Routes: []gateway.CacheRoute{
			{Route: "llama-3", Requests: map[string]uint64{"hit": 300, "local": 90, "coalesced": 12, "miss": 600, "late": 3, "bypass": 41, "error": 0}, HitRatio: 0.387, SavedTokens: 123456, SavedUSD: 12.345},
			{Route: "a-route-with-a-name-that-is-much-too-long-for-a-column-70b", Requests: map[string]uint64{"miss": 1}, SavedUSD: 0.00123},
		},
		LocalEntries: 812, LocalBytes: 5 << 20, Tracked: true, Away: true, Queued: 7, Refused: map[string]uint64{"damaged": 2, "foreign": 0, "large": 1},
	}
}

func TestTheCachesStatsFitATerminal(t *testing.T) {
	var b strings.Builder
	printCache(&b, busy())
	b.WriteString("\n---\n\n")
	printCache(&b, gateway.CacheView{LocalBytes: 2000})
	golden(t, "testdata/cache.txt", b.String())
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestTheStatsCommandAsksOneReplica(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/admin/cache" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(busy())
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

func TestAPurgeFromTheCommandLineTellsWhatItDid(t *testing.T) {
	m := miniredis.RunT(t)
	own := miniredis.RunT(t)
	t.Setenv("FOREGATE_REDIS", "")
	const rest = "\nlisten: 127.0.0.1:0\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: llama-3, target: p}]\n"
	one := configFile(t, "redis: {url: \"redis://"+m.Addr()+"\"}"+rest)
	two := configFile(t, "redis: {url: \"redis://"+m.Addr()+"\", cache_url: \"redis://"+own.Addr()+"\"}"+rest)
	for _, c := range []struct {
		args      []string
		field     string
		said      string
		here, own int // keys that are left
	}{
		{[]string{"-c", one, "--tenant", "acme"}, "tenant:acme", "purged tenant acme: no replica serves these answers after a second\n15 answers were deleted\n", 16, 31},
		{[]string{"-c", one, "--route", "llama-3"}, "route:llama-3", "purged route llama-3: no replica serves these answers after a second\nnothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
		{[]string{"-c", one}, "all", "purged all: no replica serves these answers after a second\n30 answers were deleted\n", 1, 31},
		{[]string{"-c", one, "--sweep", "0s"}, "all", "purged all: no replica serves these answers after a second\nnothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
		{[]string{"-c", two, "--tenant", "globex"}, "tenant:globex", "purged tenant globex: no replica serves these answers after a second\n15 answers were deleted\n", 31, 16},
		{[]string{"--redis", "redis://" + m.Addr(), "--cache-redis", "redis://" + own.Addr()}, "all", "purged all: no replica serves these answers after a second\n30 answers were deleted\n", 31, 1},
		{[]string{"--redis", "redis://" + m.Addr(), "--route", "unknown-here"}, "route:unknown-here", "purged route unknown-here: no replica serves these answers after a second\nnothing was deleted; the answers expire by themselves, within cache.ttl\n", 31, 31},
	} {
		m.FlushAll()
		own.FlushAll()
		for _, server := range []*miniredis.Miniredis{m, own} {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			keeps(t, client)
			_ = client.Close()
		}
		status, out, errs := call(t, append([]string{"cache", "purge"}, c.args...)...)
		if status != 0 || out != c.said || errs != "" {
			t.Errorf("%v: status %d: %s%s", c.args, status, out, errs)
		}
		if got := m.HGet("foregate:{fg}:epochs", c.field); len(got) < 16 {
			t.Errorf("%v: the epoch is %q", c.args, got)
		}
		m.Del("foregate:{fg}:epochs")
		if here, there := len(m.Keys()), len(own.Keys()); here != c.here || there != c.own {
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
		"a tenant's answers on one route alone cannot be purged":            {"-c", file, "--tenant", "acme", "--route", "llama-3"},
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
		_ = json.NewEncoder(w).Encode(gateway.Purged{Purged: "tenant acme"})
	}))
	defer srv.Close()
	file := configFile(t, "listen: 127.0.0.1:0\nadmin: "+strings.TrimPrefix(srv.URL, "http://")+"\nredis: {url: embedded}\npools: {p: {model: m, backends: [\"http://h:1\"]}}\nroutes: [{model: m, target: p}]\n")
	status, out, errs := call(t, "cache", "purge", "-c", file, "--tenant", "acme")
	if status != 0 || out != "purged tenant acme: no replica serves these answers after a second\n" || errs != "" || asked != "POST /admin/cache/purge?tenant=acme" {
		t.Errorf("status %d: %s%s, asked %s", status, out, errs, asked)
	}
}

func TestPurgesUnderTheACLAreDoneByOperatorsAndByTheGatewayWhichDeletesNothing(t *testing.T) {
	t.Parallel()
	n := guardedRedis(t)
	keeps(t, n.raw)
	url := func(user string) string { return fmt.Sprintf("redis://%s:%s@%s/0", user, user, n.addr) }
	status, out, errs := call(t, "cache", "purge", "--redis", url("foregate"), "--tenant", "acme")
	if status != 0 || !strings.HasPrefix(out, "purged tenant acme: ") || !strings.Contains(errs, "note: 0 answers were deleted, the rest expire by themselves, within cache.ttl: NOPERM") {
		t.Errorf("the gateway's user: status %d: %s%s", status, out, errs)
	}
	status, out, errs = call(t, "cache", "purge", "--redis", url("operator"), "--tenant", "acme")
	if status != 0 || !strings.Contains(out, "15 answers were deleted") || errs != "" {
		t.Errorf("the operator's: status %d: %s%s", status, out, errs)
	}
	if left := n.do(t, "DBSIZE"); fmt.Sprint(left) != "17" { // 15 of the other tenant, another key, the epochs
		t.Errorf("%v keys are left", left)
	}
	if status, _, errs := call(t, "cache", "purge", "--redis", url("exporter")); status != 1 || !strings.Contains(errs, "NOPERM") {
		t.Errorf("the exporter's: status %d: %s", status, errs)
	}
}

func TestASweepOfAClusterFindsEveryNodesAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	keeps(t, hands(t, c))
	status, out, errs := call(t, "cache", "purge", "--redis", c.url(), "--tenant", "acme")
	if status != 0 || !strings.Contains(out, "15 answers were deleted") || errs != "" {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

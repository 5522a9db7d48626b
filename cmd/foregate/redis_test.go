package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/prefix"
)

// aclFile is deploy/redis/users.acl with a password for each user, its own name, and one
// user more who may do everything.
func aclFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/redis/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	for user, word := range map[string]string{"foregate": "FOREGATES", "operator": "THE-OPERATORS", "exporter": "THE-EXPORTERS"} {
		word = "#SHA256-OF-" + word + "-PASSWORD"
		if !strings.Contains(string(text), "user "+user+" on "+word+" ") {
			t.Fatalf("%s has no place for a password", user)
		}
		text = []byte(strings.Replace(string(text), word, fmt.Sprintf("#%x", sha256.Sum256([]byte(user))), 1))
	}
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, append(text, "user tester on nopass ~* &* +@all\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// guardedRedis is a redis-server under that ACL.
func guardedRedis(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.StartWith(t, &redis.Options{Username: "tester", Password: "any"}, append(args, "--aclfile", aclFile(t))...)
}

// as talks to a server as one of its users.
func as(t *testing.T, n *redistest.Server, user string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: n.Addr, Username: user, Password: user, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// work has a pair of replicas do all that they ever ask of Redis.
func (p *pair) work(t *testing.T) {
	t.Helper()
	r := p.replicas[0]
	backend := r.Pool("only").Snapshot()[0].ID
	r.Fleet.Place("only", []prefix.Placement{{Backend: backend, Key: 1, Tokens: 16}})
	if err := r.Fleet.Drain(t.Context(), "only", backend, "why", time.Hour); err != nil {
		t.Error(err)
	}
	apptest.Eventually(t, "the other hears of the drain", func() bool { return p.replicas[1].Pool("only").Snapshot()[0].State == "drained" })
	if err := r.Fleet.Undrain(t.Context(), "only", backend); err != nil {
		t.Error(err)
	}
	apptest.Eventually(t, "the other hears of its end", func() bool { return p.replicas[1].Pool("only").Snapshot()[0].State != "drained" })
	for range 20 { // they fail, which the breakers tell each other
		_, _, _ = apptest.Send(t, http.MethodPost, r.URL+chat, chatBody("m"))
	}
	p.share(t)
	now, day := time.Now(), 24*time.Hour
	apptest.Eventually(t, "usage is in Redis", func() bool {
		told, err := r.Ledger.Read(t.Context(), ledger.Query{From: now.Add(-day), To: now.Add(day), By: []ledger.Dimension{ledger.ByTenant}})
		return err == nil && told.Total.Requests >= 20
	})
	p.spend(t)
	p.converse(t)
}

// converse has a response of the first replica stored, gone on from at the second and deleted.
func (p *pair) converse(t *testing.T) {
	t.Helper()
	first := conversations.Turn{ID: conversations.Next(conversations.ID{}, strings.Repeat("1", 32)), Output: []byte("[]")}
	apptest.Eventually(t, "a response is stored", func() bool { return p.replicas[0].Conversations.Put(t.Context(), "acme", first, 0) == nil })
	apptest.Eventually(t, "the other goes on from it", func() bool {
		_, err := p.replicas[1].Conversations.Whole(t.Context(), "acme", first.ID)
		next := conversations.Turn{ID: conversations.Next(first.ID, strings.Repeat("2", 32)), Before: first.ID, Output: []byte("[]")}
		return err == nil && p.replicas[1].Conversations.Put(t.Context(), "acme", next, 0) == nil
	})
	apptest.Eventually(t, "it is deleted", func() bool { return p.replicas[0].Conversations.Delete(t.Context(), "acme", first.ID) == nil })
}

// spend has a request counted in a tenant's budget.
func (p *pair) spend(t *testing.T) {
	t.Helper()
	a := ledger.Request{Tenant: "acme", Budgets: []identity.Budget{{Tokens: 1e6, Per: identity.Month, DenyOnLoss: true}}, Tokens: 10}
	apptest.Eventually(t, "a budget is counted in Redis", func() bool {
		g, err := p.replicas[0].Ledger.Reserve(t.Context(), a)
		if err != nil {
			return false
		}
		g.Settle(10, 0)
		return true
	})
	apptest.Eventually(t, "the other sees what is spent", func() bool {
		s := p.replicas[1].Ledger.States(t.Context(), []ledger.BudgetQuery{{Tenant: a.Tenant, Budgets: a.Budgets}})[0]
		return s[0].Shared && s[0].Used == 10
	})
}

// share has an answer of the first replica kept, found by the second and purged.
func (p *pair) share(t *testing.T) {
	t.Helper()
	key := cache.KeyOf(&cache.Parts{Tenant: "acme", Route: "m", Request: []byte(t.Name())})
	apptest.Eventually(t, "the other finds the answer", func() bool {
		p.replicas[0].Cache.Put(key, &cache.Entry{Created: time.Now(), Answer: []byte("an answer")}, time.Minute, nil)
		_, found := p.replicas[1].Cache.Look(t.Context(), key)
		return found == cache.ResultHit
	})
	before, _ := p.replicas[1].Cache.Epochs("acme", "m")
	if _, err := p.replicas[0].Cache.Purge(t.Context(), cache.Scope{Tenant: "acme"}); err != nil {
		t.Error(err)
	}
	apptest.Eventually(t, "the other hears of the purge", func() bool { e, ok := p.replicas[1].Cache.Epochs("acme", "m"); return ok && e.Tenant > before.Tenant })
}

func TestTheACLAllowsAllThatReplicasAskFor(t *testing.T) {
	t.Parallel()
	n := guardedRedis(t)
	p := newPair(t, fmt.Sprintf("url: redis://foregate:foregate@%s/0", n.Addr))
	apptest.Eventually(t, "they share", p.shared)
	p.obeys(t, as(t, n, "operator"), 450*time.Millisecond)
	p.work(t)
	desk := settings.NewStore(as(t, n, "operator"), []string{"m"})
	if _, err := desk.Set(t.Context(), settings.Edit{Who: "ann"}, map[string]string{"shed.low": "0.7"}, nil); err != nil {
		t.Error(err)
	}
	if _, err := desk.Rollback(t.Context(), settings.Edit{Who: "bob"}, 0); err != nil {
		t.Error(err)
	}
	if err := desk.History(t.Context(), func(e settings.Entry) bool { return e.Who != "bob" }); err != nil {
		t.Error(err)
	}
	n.Do("SCRIPT", "FLUSH")
	apptest.Eventually(t, "they share after the scripts were lost", p.shared)
	n.Do("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
	apptest.Eventually(t, "they share after their connections were lost", p.shared)
	for _, r := range p.replicas {
		r.Stop(t)
	}
	if denied := n.Do("ACL", "LOG"); len(denied.([]any)) > 0 {
		t.Errorf("denied: %v", denied)
	}
	stats := fmt.Sprint(n.Do("INFO", "commandstats"))
	for _, line := range regexp.MustCompile(`cmdstat_(\S+):.*rejected_calls=([1-9]\d*)`).FindAllString(stats, -1) {
		t.Errorf("rejected: %s", line)
	}
	if n := fmt.Sprint(n.Do("ZCARD", "foregate:{fg}:replicas")); n != "0" {
		t.Errorf("%s replicas did not leave", n)
	}
	if _, err := settings.NewStore(as(t, n, "foregate"), nil).Set(t.Context(), settings.Edit{}, map[string]string{"shed.low": "0.7"}, nil); !settings.IsForbidden(err) {
		t.Errorf("with the replica's own user: %v", err)
	}
}

func TestTheACLAllowsAllThatReplicasAskOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	grants := regexp.MustCompile(`(?m)^user foregate .*$`).FindString(readText(t, aclFile(t)))
	for _, n := range c.Nodes {
		words := []any{"ACL", "SETUSER"}
		for _, w := range strings.Fields(grants)[1:] {
			words = append(words, w)
		}
		n.Do(words...)
	}
	p := newPair(t, `url: "redis+cluster://foregate:foregate@`+strings.TrimPrefix(c.URL(), "redis+cluster://")+`"`)
	apptest.Eventually(t, "they share", p.shared)
	h := hands(t, c)
	p.obeys(t, h, 450*time.Millisecond)
	p.work(t)
	for _, n := range c.Nodes {
		if denied := n.Do("ACL", "LOG"); len(denied.([]any)) > 0 {
			t.Errorf("denied: %v", denied)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// granted are the commands of a user.
func granted(t *testing.T, user string) []string {
	t.Helper()
	var commands []string
	line := regexp.MustCompile(`(?m)^user ` + user + ` .*$`).FindString(readText(t, "../../deploy/redis/users.acl"))
	for _, w := range strings.Fields(line) {
		if command, ok := strings.CutPrefix(strings.Trim(w, "()"), "+"); ok {
			commands = append(commands, command)
		}
	}
	return commands
}

func TestEveryCommandOfEveryScriptIsGrantedAndNoOtherOfTheirs(t *testing.T) {
	calls := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	// What Go itself sends.
	sent := []string{
		"hello", "ping", "evalsha", "script|load", "hgetall", "hkeys", "hlen", "hmget", "hstrlen", "hdel", "xadd", "xread", "xrevrange", "zrem",
		"cluster|slots", "asking", "getrange", "set", "unlink", "xrange", "zrange", "zadd", "zremrangebyscore", "watch", "unwatch", "multi", "exec", "incr",
	}
	scripts := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "loadtest":
			return filepath.SkipDir
		case filepath.Ext(path) != ".lua":
			return nil
		}
		scripts++
		for _, m := range calls.FindAllStringSubmatch(readText(t, path), -1) {
			sent = append(sent, strings.ToLower(m[1]))
		}
		return nil
	})
	if err != nil || scripts < 4 {
		t.Fatalf("%d scripts, %v", scripts, err)
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	given := granted(t, "foregate")
	slices.Sort(given)
	for _, c := range sent {
		if !slices.Contains(given, c) {
			t.Errorf("%s is asked for and not granted", c)
		}
	}
	for _, c := range given {
		if !slices.Contains(sent, c) {
			t.Errorf("%s is granted and nobody asks for it", c)
		}
	}
}

func TestTheACLDeniesAllElse(t *testing.T) {
	n := guardedRedis(t)
	n.Do("HSET", settings.Key, "shed.low", "0.9")
	n.Do("SET", "foregate:cache:x", "y")
	n.Do("SET", "other", "y")
	everybody := [][]any{
		{"KEYS", "*"}, {"RANDOMKEY"}, {"DBSIZE"}, {"FLUSHALL"}, {"FLUSHDB"}, {"SWAPDB", 0, 1}, {"SELECT", 1}, {"CONFIG", "GET", "*"}, {"CONFIG", "SET", "maxmemory", "1"},
		{"MONITOR"}, {"SHUTDOWN", "NOSAVE"}, {"SAVE"}, {"BGSAVE"}, {"BGREWRITEAOF"}, {"REPLICAOF", "NO", "ONE"}, {"FAILOVER"}, {"ACL", "LIST"}, {"ACL", "SETUSER", "x"},
		{"EVAL", "return 1", "0"}, {"FUNCTION", "LIST"}, {"SCRIPT", "FLUSH"}, {"SCRIPT", "KILL"}, {"MODULE", "LIST"}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "NORMAL"},
		{"CLUSTER", "RESET"}, {"CLUSTER", "FAILOVER"}, {"MIGRATE", "127.0.0.1", "1", "other", "0", "1"}, {"RESTORE", "x", "0", "x"}, {"DUMP", "other"}, {"OBJECT", "ENCODING", "other"},
		{"GET", "other"}, {"SET", "other", "x"}, {"HGETALL", "other"}, {"DEL", "other"}, {"UNLINK", "other"}, {"SLAVEOF", "NO", "ONE"}, {"SORT", "other"},
	}
	for user, own := range map[string][][]any{
		"foregate": {
			{"HSET", settings.Key, "shed.low", "0"}, {"HDEL", settings.Key, "shed.low"}, {"DEL", settings.Key}, {"UNLINK", settings.Key}, {"XADD", settings.LogKey, "*", "a", "b"},
			{"PUBLISH", "other", "x"}, {"SUBSCRIBE", "other"}, {"PSUBSCRIBE", "*"}, {"INFO"}, {"WATCH", "other"}, {"SET", "foregate:{fg}:x", "y"}, {"LATENCY", "LATEST"}, {"SLOWLOG", "GET"}, {"SCAN", "0"},
			{"HSET", "foregate:x", "a", "b"}, {"CLIENT", "TRACKINGINFO"},
		},
		"operator": {
			{"HSET", "foregate:{fg}:drain", "a/b", "x"}, {"DEL", "foregate:{fg}:replicas"}, {"HSET", "foregate:{fg}:told1", "x", "y"}, {"GET", "foregate:cache:x"}, {"SET", "foregate:cache:x", "z"},
			{"DUMP", "foregate:cache:x"}, {"HDEL", "foregate:{fg}:ledger1:tenant:x", "y"}, {"PUBLISH", "foregate:{fg}:x", "x"}, {"ZADD", "foregate:{fg}:replicas", 1, "x"}, {"INFO"},
		},
		"exporter": {
			{"HGETALL", settings.Key}, {"HSET", settings.Key, "shed.low", "0"}, {"XREVRANGE", settings.LogKey, "+", "-"}, {"HGETALL", "foregate:{fg}:drain"}, {"TYPE", settings.Key}, {"EVALSHA", "x", "0"},
			{"SUBSCRIBE", "foregate:{fg}:x"}, {"SLOWLOG", "GET"}, {"TIME"}, {"SCAN", "0"}, {"GET", "foregate:cache:x"}, {"UNLINK", "foregate:cache:x"},
		},
	} {
		c := as(t, n, user)
		for _, args := range append(slices.Clone(everybody), own...) {
			if err := c.Do(t.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s: %v: %v", user, args, err)
			}
		}
	}
	// Through a script, too.
	gate := as(t, n, "foregate")
	sha, err := gate.ScriptLoad(t.Context(), "return redis.call('HSET',KEYS[1],'shed.low','0')").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.EvalSha(t.Context(), sha, []string{settings.Key}).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a script that writes settings: %v", err)
	}
	if got := n.Do("HGET", settings.Key, "shed.low"); got != "0.9" {
		t.Errorf("the setting is %v", got)
	}
	if err := redis.NewClient(&redis.Options{Addr: n.Addr, MaxRetries: -1}).Ping(t.Context()).Err(); err == nil {
		t.Error("nobody in particular may come in")
	}
	info := as(t, n, "exporter")
	for _, args := range [][]any{{"INFO"}, {"PING"}, {"SLOWLOG", "LEN"}, {"LATENCY", "LATEST"}} {
		if err := info.Do(t.Context(), args...).Err(); err != nil {
			t.Errorf("exporter: %v: %v", args, err)
		}
	}
}

func TestReplicasShareThroughTLSAsAnACLUser(t *testing.T) {
	t.Parallel()
	ca, cert, key := redistest.Certificates(t)
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	hands := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	hands.RootCAs.AppendCertsFromPEM(pem)
	addr := "127.0.0.1:" + redistest.FreePort(t)
	_, port, _ := net.SplitHostPort(addr)
	n := redistest.StartWith(t, &redis.Options{Addr: addr, TLSConfig: hands}, "--port", "0", "--tls-port", port,
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "yes")
	n.Do("ACL", "SETUSER", "foregate", "on", ">s3cret", "allcommands", "~foregate:*", "~{foregate:settings}:log", "&foregate:*")
	n.Do("ACL", "SETUSER", "default", "resetpass", "nopass", "-@all", "+hset", "+ping", "+hello", "+client", "+acl", "allkeys")
	section := "url: rediss://foregate:s3cret@%s, ca_file: %s, cert_file: %s, key_file: %s, server_name: %s"
	p := newPair(t, fmt.Sprintf(section, n.Addr, ca, cert, key, "redis.internal"))
	apptest.Eventually(t, "they share", p.shared)
	p.obeys(t, n.Client, 450*time.Millisecond)
	for name, section := range map[string]string{
		"another name":      fmt.Sprintf(section, n.Addr, ca, cert, key, "redis.example"),
		"another authority": fmt.Sprintf("url: rediss://foregate:s3cret@%s, cert_file: %s, key_file: %s", n.Addr, cert, key),
		"no certificate":    fmt.Sprintf("url: rediss://foregate:s3cret@%s, ca_file: %s", n.Addr, ca),
		"no TLS":            fmt.Sprintf("url: redis://foregate:s3cret@%s", n.Addr),
		"another password":  fmt.Sprintf("url: rediss://foregate:wrong@%s, ca_file: %s, cert_file: %s, key_file: %s", n.Addr, ca, cert, key),
	} {
		p := newPair(t, section)
		apptest.Eventually(t, name+" is told", func() bool { return strings.Count(p.replicas[0].Log.String(), `"mode":"local"`) == 1 })
		if log := p.replicas[0].Log.String(); p.replicas[0].Fleet.Sharing() || strings.Contains(log, "s3cret") {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// hands are a client of the whole cluster for the test itself.
func hands(t *testing.T, c *redistest.Cluster) *redis.ClusterClient {
	t.Helper()
	h := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}})
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// pair is two replicas in this process that share a Redis and a backend.
type pair struct{ replicas [2]*apptest.Replica }

// newPair starts two replicas; section is the configuration of redis.
func newPair(t *testing.T, section string) *pair {
	t.Helper()
	p, backend := &pair{}, apptest.LoadedBackend(t, "m", 0.5)
	for i := range p.replicas {
		p.replicas[i] = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {%s}
pools: {only: {model: m, backends: [%q]}}
routes: [{model: m, target: only}]
drain: {delay: 0s, grace: 1s}
`, section, backend.URL))
	}
	return p
}

// shared reports whether both know of each other, and both have a young reading of the
// backend, which one of them took.
func (p *pair) shared() bool {
	owners := 0
	for _, r := range p.replicas {
		b := r.Pool("only").Snapshot()[0]
		if !r.Fleet.Sharing() || len(r.Fleet.Members()) != 2 || b.Age == nil || time.Since(b.Reading.At) > fresh {
			return false
		}
		if r.Fleet.Mine("only", b.ID) {
			owners++
		}
	}
	return owners == 1
}

// obeys has hands write a setting and waits until it is in force on both.
func (p *pair) obeys(t *testing.T, hands redis.Cmdable, interval time.Duration) {
	t.Helper()
	if err := hands.HSet(t.Context(), "foregate:settings", "scrape.interval", interval.String()).Err(); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the setting is in force on both", func() bool {
		for _, r := range p.replicas {
			if r.App.Settings.Snapshot().Global().ScrapeInterval != interval {
				return false
			}
		}
		return true
	})
}

// fresh is how old a reading may be that counts as it is.
const fresh = 2 * time.Second

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// sealing is one replica without copies of its own, on one Redis and one backend, whose seal keys are replaced.
type sealing struct {
	*server
	redis *redisServer
	sim   *vllmsim.Server
	keys  string // path of the file
}

// start ends the replica, if there is one, and starts another with that configuration of its cache.
func (s *sealing) start(t *testing.T, cache string) {
	t.Helper()
	if s.server != nil {
		s.end(t)
	}
	s.server = serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: %s, backends: [%q]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 5s}
cache: %s
`, s.redis.addr, fleetModel, s.sim.URL(), routeUsual, cache))
	s.ready(t)
}

// replace writes the file anew, and waits until its keys are in force.
func (s *sealing) replace(t *testing.T, keys ...string) {
	t.Helper()
	changes := func() (n int) {
		const name = `foregate_file_reloads_total{setting="cache.seal_keys_file"} `
		_, rest, _ := strings.Cut(s.metrics(t), name)
		_, _ = fmt.Sscan(rest, &n) // 0 where it is not there yet
		return n
	}
	before := changes()
	if err := os.WriteFile(s.keys, []byte(strings.Join(keys, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, 10*reload.Interval, "the keys are in force", func() bool { return changes() > before })
}

// told is what the replica says of its cache.
func (s *sealing) told(t *testing.T) (v gateway.CacheView) {
	t.Helper()
	status, body := get(t, s.admin+"/admin/cache")
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK {
		t.Fatalf("GET /admin/cache: status %d, %v: %s", status, err, body)
	}
	return v
}

// keeps has an answer made for a tenant, and waits until it is kept; it tells what Redis has of it.
func (s *sealing) keeps(t *testing.T, tenant string) (value string) {
	t.Helper()
	s.finds(t, "nobody") // or the answer is not kept, because purges are not heard of yet
	post(t, s.base+chat, chatBody(routeUsual), "X-Tenant-ID", tenant)
	eventually(t, "the answer is kept", func() bool {
		keys, err := s.redis.client.Keys(t.Context(), cache.TenantPrefix(tenant)+"*").Result()
		if err != nil || len(keys) != 1 {
			return false
		}
		value, err = s.redis.client.Get(t.Context(), keys[0]).Result()
		return err == nil
	})
	return value
}

// has checks whether the replica serves the answer of a tenant: if not, it is there all the same, and counted as
// foreign, after which it is gone.
func (s *sealing) has(t *testing.T, tenant string, want bool) {
	t.Helper()
	before := s.told(t).Refused["foreign"]
	if got := s.finds(t, tenant); got != want {
		t.Errorf("%s has a hit: %t, want %t", tenant, got, want)
	}
	after := s.told(t)
	if refused := after.Refused["foreign"] - before; want != (refused == 0) {
		t.Errorf("%s has a hit: %t, and %d values were counted as foreign", tenant, want, refused)
	}
	if damaged := after.Refused["damaged"]; damaged > 0 {
		t.Errorf("%d values were counted as damaged", damaged)
	}
}

// finds reports whether the replica has an answer for a tenant. A look that was not in time is no answer to that.
func (s *sealing) finds(t *testing.T, tenant string) (hit bool) {
	t.Helper()
	misses := func() (n uint64) {
		for _, r := range s.told(t).Routes {
			n += r.Requests["miss"]
		}
		return n
	}
	before := misses()
	eventually(t, "it looks in time", func() bool {
		hit = cached(t, s.server, tenant)
		return hit || misses() > before
	})
	return hit
}

func TestSealKeysAreReplacedWhileAReplicaRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	s := &sealing{redis: newRedisServer(t), sim: vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed}), keys: secretFile(t, oneKey)}
	s.start(t, fmt.Sprintf("{local_bytes: 0, seal_keys_file: %q}", s.keys))
	old := s.keeps(t, "acme")
	s.replace(t, otherKey, oneKey)
	s.has(t, "acme", true)
	young := s.keeps(t, "globex")
	for value, id := range map[string]string{old: "k1", young: "k2"} {
		if head := "fg\xca\x01\x02" + id; !strings.HasPrefix(value, head) {
			t.Errorf("a value begins with %q, want %q", value[:min(len(value), len(head))], head)
		}
	}
	s.has(t, "globex", true)
	s.replace(t, otherKey)
	s.has(t, "acme", false)
	s.has(t, "globex", true)
	if log := s.log.String(); strings.Count(log, "engines compute each prefix once more") != 1 || strings.Contains(log, strings.Fields(otherKey)[1]) {
		t.Errorf("once another key seals; the log:\n%s", log)
	}
	s.start(t, "{local_bytes: 0}")
	s.has(t, "globex", false)
	if n := asked(s.sim); n != 2 {
		t.Errorf("two answers cost %d generations", n)
	}
}

// cached reports whether a replica has an answer for a tenant's request; it does not have it made.
func cached(t *testing.T, p *server, tenant string) bool {
	t.Helper()
	status, head, body := send(t, http.MethodPost, p.base+chat, chatBody(routeUsual), "X-Tenant-ID", tenant, "Cache-Control", "only-if-cached")
	switch {
	case status == http.StatusOK && head.Get("X-Cache") == "HIT":
		return true
	case status != http.StatusGatewayTimeout:
		t.Errorf("status %d, X-Cache %q: %s", status, head.Get("X-Cache"), body)
	}
	return false
}

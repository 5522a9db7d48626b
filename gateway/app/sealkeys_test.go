package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Files of seal keys.
const (
	oneKey   = "k1 0123456789abcdef0123456789abcdef\n"
	otherKey = "k2 fedcba9876543210fedcba9876543210\n"
)

// secretFile writes text as a file that its owner alone may read.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sealing is one replica without copies of its own, on one Redis and one backend, whose seal keys are replaced.
type sealing struct {
	*apptest.Replica
	redis *redistest.Server
	sim   *vllmsim.Server
	keys  string // path of the file
}

// start ends the replica, if there is one, and starts another with that configuration of its cache.
func (s *sealing) start(t *testing.T, cache string) {
	t.Helper()
	if s.Replica != nil {
		s.Stop(t)
	}
	s.Replica = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {only: {model: %s, backends: [%q]}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 5s}
cache: %s
`, s.redis.Addr, "m", s.sim.URL(), routeUsual, cache))
	s.Ready(t)
}

// replace writes the file anew, and waits until its keys are in force.
func (s *sealing) replace(t *testing.T, keys ...string) {
	t.Helper()
	changes := func() (n int) {
		const name = `foregate_file_reloads_total{setting="cache.seal_keys_file"} `
		_, rest, _ := strings.Cut(s.Metrics(t), name)
		_, _ = fmt.Sscan(rest, &n) // 0 where it is not there yet
		return n
	}
	before := changes()
	if err := os.WriteFile(s.keys, []byte(strings.Join(keys, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	apptest.Within(t, 10*reload.Interval, "the keys are in force", func() bool { return changes() > before })
}

// told is what the replica says of its cache.
func (s *sealing) told(t *testing.T) (v gateway.CacheView) {
	t.Helper()
	status, body := apptest.Get(t, s.Admin+"/admin/cache")
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK {
		t.Fatalf("GET /admin/cache: status %d, %v: %s", status, err, body)
	}
	return v
}

// keeps has an answer made for a tenant, and waits until it is kept; it tells what Redis has of it.
func (s *sealing) keeps(t *testing.T, tenant string) (value string) {
	t.Helper()
	s.finds(t, "nobody") // or the answer is not kept, because purges are not heard of yet
	apptest.Post(t, s.URL+chat, chatBody(routeUsual), "X-Tenant-ID", tenant)
	apptest.Eventually(t, "the answer is kept", func() bool {
		keys, err := s.redis.Client.Keys(t.Context(), cache.TenantPrefix(tenant)+"*").Result()
		if err != nil || len(keys) != 1 {
			return false
		}
		value, err = s.redis.Client.Get(t.Context(), keys[0]).Result()
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
	apptest.Eventually(t, "it looks in time", func() bool {
		hit = cached(t, s.Replica, tenant)
		return hit || misses() > before
	})
	return hit
}

func TestSealKeysAreReplacedWhileAReplicaRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	s := &sealing{redis: redistest.Start(t), sim: vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed}), keys: secretFile(t, oneKey)}
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
	if log := s.Log.String(); strings.Count(log, "engines compute each prefix once more") != 1 || strings.Contains(log, strings.Fields(otherKey)[1]) {
		t.Errorf("once another key seals; the log:\n%s", log)
	}
	s.start(t, "{local_bytes: 0}")
	s.has(t, "globex", false)
	if n := s.sim.State().Requests[chat]; n != 2 {
		t.Errorf("two answers cost %d generations", n)
	}
}

// cached reports whether a replica has an answer for a tenant's request; it does not have it made.
func cached(t *testing.T, p *apptest.Replica, tenant string) bool {
	t.Helper()
	status, head, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody(routeUsual), "X-Tenant-ID", tenant, "Cache-Control", "only-if-cached")
	switch {
	case status == http.StatusOK && head.Get("X-Cache") == "HIT":
		return true
	case status != http.StatusGatewayTimeout:
		t.Errorf("status %d, X-Cache %q: %s", status, head.Get("X-Cache"), body)
	}
	return false
}

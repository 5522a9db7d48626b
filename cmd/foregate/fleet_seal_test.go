package main

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
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// sealing is one replica that is started again and again, each time with other keys, on one Redis and one backend.
type sealing struct {
	*process
	redis *redisServer
	sim   *vllmsim.Server
	files map[string]string // of secrets, by the key's id
}

// restart ends the replica, if there is one, and starts another with the keys in that order.
func (s *sealing) restart(t *testing.T, keys ...string) {
	t.Helper()
	if s.process != nil {
		s.end(t)
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nredis: {url: \"redis://%s/0\"}\npools: {only: {model: %s, backends: [%q]}}\nroutes: [{model: %s, target: only}]\ndrain: {delay: 0s, grace: 5s}\n",
		s.redis.addr, fleetModel, s.sim.URL(), routeUsual)
	if len(keys) > 0 {
		text += "cache:\n  seal_keys:\n"
	}
	for _, id := range keys {
		text += fmt.Sprintf("    - {id: %s, file: %q}\n", id, s.files[id])
	}
	s.process = serve(t, text)
	s.ready(t)
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
		hit = cached(t, s.process, tenant)
		return hit || misses() > before
	})
	return hit
}

func TestSealKeysAreReplacedByRestartsOneByOne(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	dir := t.TempDir()
	s := &sealing{redis: newRedisServer(t), sim: vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed}), files: map[string]string{}}
	for id, secret := range map[string]string{"k1": oneSecret, "k2": otherSecret} {
		s.files[id] = filepath.Join(dir, id)
		if err := os.WriteFile(s.files[id], []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.restart(t, "k1")
	old := s.keeps(t, "acme")
	s.restart(t, "k2", "k1")
	s.has(t, "acme", true)
	young := s.keeps(t, "globex")
	for value, id := range map[string]string{old: "k1", young: "k2"} {
		if head := "fg\xca\x01\x02" + id; !strings.HasPrefix(value, head) {
			t.Errorf("a value begins with %q, want %q", value[:min(len(value), len(head))], head)
		}
	}
	s.has(t, "globex", true)
	s.restart(t, "k2")
	s.has(t, "acme", false)
	s.has(t, "globex", true)
	s.restart(t)
	s.has(t, "globex", false)
	if n := asked(s.sim); n != 2 {
		t.Errorf("two answers cost %d generations", n)
	}
}

package main

import (
	"net/http"
	"testing"
	"time"
)

// cached reports whether a replica has an answer for a tenant's request; it does not have it made.
func cached(t *testing.T, p *process, tenant string) bool {
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

func TestAPurgeIsInForceOnThreeReplicasWithinASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := newFleet(t, 1)
	for _, tenant := range []string{"acme", "globex"} {
		post(t, w.replicas[0].base+chat, chatBody(routeUsual), "X-Tenant-ID", tenant)
		eventually(t, "all replicas have the answer", func() bool { return w.all(func(p *process) bool { return cached(t, p, tenant) }) })
	}
	if n := asked(w.sims[0]); n != 2 {
		t.Errorf("two answers cost %d generations", n)
	}
	began := time.Now()
	status, out, errs := call(t, "cache", "purge", "--redis", "redis://"+w.redis.addr, "--tenant", "acme", "--sweep", "0s")
	if status != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	var last time.Duration
	slowest := during(2*time.Second, func() {
		if !w.all(func(p *process) bool { return !cached(t, p, "acme") }) {
			last = time.Since(began)
		}
	})
	promised(t, "the last answer of a tenant that was purged", last, time.Second, slowest)
	if !w.all(func(p *process) bool { return cached(t, p, "globex") }) {
		t.Error("another tenant's answer is gone, too")
	}
	if !w.redis.keeps(t, "foregate:cache:*", 2) {
		t.Error("what is unreachable was deleted, although it was not to be")
	}
}

// keeps reports whether Redis has so many keys of a pattern.
func (r *redisServer) keeps(t *testing.T, pattern string, n int) bool {
	t.Helper()
	keys, err := r.client.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(keys) == n
}

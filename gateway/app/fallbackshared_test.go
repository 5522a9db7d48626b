package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// heldEngine is an engine that takes chats, and breaks all their connections once it is released.
type heldEngine struct {
	*httptest.Server
	holding, asked atomic.Int64
	released       chan struct{}
	once           sync.Once
}

func startHeld(t *testing.T) *heldEngine {
	t.Helper()
	h := &heldEngine{released: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != chat {
			http.NotFound(w, r)
			return
		}
		h.asked.Add(1)
		h.holding.Add(1)
		defer h.holding.Add(-1)
		select {
		case <-h.released:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() { h.release(); h.Close() })
	return h
}

// release breaks the connections of all chats, now and later.
func (h *heldEngine) release() { h.once.Do(func() { close(h.released) }) }

// TestIdenticalRequestsDoNotShareAnOutsidersAnswer has a generation that several requests of a tenant share fail. Each
// request then goes out alone or not at all, and nothing of it is kept.
func TestIdenticalRequestsDoNotShareAnOutsidersAnswer(t *testing.T) {
	const each = 4
	for _, member := range []string{`"max_tokens":20`, `"max_tokens":20,"stream":true`} {
		hosted, own := startHosted(t), startHeld(t)
		r := apptest.Serve(t, fallbackFile(own.URL, hosted.URL, "{pool: hosted, max_usd_per_hour: 20}", ""))
		body := chatBody("llama-3", `"temperature":0`, member)
		var all sync.WaitGroup
		var outside, inside atomic.Int64
		for range each {
			for tenant, count := range map[string]*atomic.Int64{"acme": &outside, "shy": &inside} {
				all.Go(func() {
					status, head, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Tenant-ID", tenant)
					if (tenant == "acme") != (status == http.StatusOK && head.Get("X-Tier") == "fallback" && strings.Contains(answer, "outside")) {
						t.Errorf("%s: status %d, tier %q: %s", tenant, status, head.Get("X-Tier"), answer)
						return
					}
					count.Add(1)
				})
			}
		}
		apptest.Eventually(t, "all requests are there, and one of each tenant is at the engine", func() bool {
			return own.holding.Load() == 2 && strings.Contains(r.Metrics(t), "foregate_requests_in_flight 8\n")
		})
		own.release()
		all.Wait()
		if len(hosted.asked()) != each || outside.Load() != each || inside.Load() != each {
			t.Errorf("the outsider was asked %d times, for %d and %d requests", len(hosted.asked()), outside.Load(), inside.Load())
		}
		before := own.asked.Load()
		if status, head, _ := apptest.Send(t, http.MethodPost, r.URL+chat, body, "X-Tenant-ID", "acme"); status != http.StatusOK || head.Get("X-Cache") == "HIT" ||
			len(hosted.asked()) != each+1 || own.asked.Load() == before {
			t.Errorf("afterwards: status %d, %v: an outsider's answer was kept", status, head)
		}
	}
}

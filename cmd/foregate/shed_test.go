package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/tiers"
)

// loaded is a backend that does nothing but tell its KV usage.
func loaded(t *testing.T, model string, usage float64) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "busy", http.StatusTeapot)
			return
		}
		_, _ = fmt.Fprintf(w, "vllm:num_requests_running{model_name=%q} 1\nvllm:num_requests_waiting{model_name=%q} 0\nvllm:kv_cache_usage_perc{model_name=%q} %g\n", model, model, model, usage)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// pressed runs a replica over an idle draft and a full target, and waits until
// it knows both. client may be nil.
func pressed(t *testing.T, client redis.UniversalClient) (r *replica, draft *httptest.Server) {
	t.Helper()
	draft = loaded(t, "d", 0.1)
	file, err := config.Parse("shed", fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools: {d: {model: d, backends: [%q]}, t: {model: t, backends: [%q]}}
routes: [{model: m, draft: d, target: t}, {model: alone, target: t}]
drain: {delay: 0s, grace: 1s}
`, draft.URL, loaded(t, "t", 0.99).URL))
	if err != nil {
		t.Fatal(err)
	}
	r, err = assemble(t.Context(), parts{file: file, redis: client, log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.gateway.Stop(context.Background()) })
	eventually(t, "both pools have a reading", func() bool {
		return r.pools["d"].Snapshot()[0].HasReading && r.pools["t"].Snapshot()[0].HasReading
	})
	return r, draft
}

// shedBy sends a request and returns what it was shed for, "" when it was not.
func shedBy(t *testing.T, r *replica, model, fields string) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`, model, fields)
	resp, err := http.Post("http://"+r.gateway.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if reason := resp.Header.Get("X-Shed-Reason"); (reason != "") != (resp.StatusCode == http.StatusServiceUnavailable) {
		t.Errorf("status %d with X-Shed-Reason %q", resp.StatusCode, reason)
	}
	return resp.Header.Get("X-Shed-Reason")
}

func TestARequestIsShedForThePoolsItCouldGoTo(t *testing.T) {
	r, _ := pressed(t, nil)
	if got := shedBy(t, r, "m", ""); got != "" {
		t.Errorf("the draft pool has room, but a judged request was shed: %s", got)
	}
	for model, fields := range map[string]string{"m": `,"n":2`, "alone": ""} {
		if got := shedBy(t, r, model, fields); !strings.Contains(got, "pool=t;") {
			t.Errorf("%s %s goes straight to a full target, but was not shed for it: %q", model, fields, got)
		}
	}
}

func TestADraftPoolThatIsDownKeepsNoFullTargetOpen(t *testing.T) {
	r, draft := pressed(t, nil)
	draft.CloseClientConnections()
	draft.Close()
	shedBy(t, r, "m", "") // its try finds the draft down
	eventually(t, "the draft pool is down", func() bool { return !r.pools["d"].Healthy() })
	if got := shedBy(t, r, "m", ""); !strings.Contains(got, "pool=t;") {
		t.Errorf("got %q", got)
	}
}

func TestPoolsAreLookedAtByThePlan(t *testing.T) {
	r, _ := pressed(t, nil)
	for _, c := range []struct {
		plan tiers.Plan
		want string
	}{
		{tiers.Plan{Tier: tiers.Draft, Judged: true}, "d t "},
		{tiers.Plan{Tier: tiers.Draft, Reason: "demanded"}, "d "},
		{tiers.Plan{Tier: tiers.Target, Reason: "mode_off"}, "t "},
	} {
		got := ""
		for _, l := range r.loads("m", c.plan) {
			got += l.Pool + " "
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.plan, got, c.want)
		}
	}
}

func TestWithTheModeOffAFullTargetSheds(t *testing.T) {
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", "speculation.mode", "off")
	clients, stop, err := openRedis(config.Endpoint{Kind: config.KindSingle, Network: "tcp", Addrs: []string{store.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	r, _ := pressed(t, clients.control)
	if got := shedBy(t, r, "m", ""); !strings.Contains(got, "pool=t;") {
		t.Errorf("got %q", got)
	}
}

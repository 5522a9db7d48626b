package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/loadtest/vllmsim"
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

// pressed runs a replica over an idle draft and a full target, with the given settings,
// and waits until it knows both. Every draft is kept.
func pressed(t *testing.T, settings ...string) (r *app.App, draft *vllmsim.Server) {
	t.Helper()
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", append([]string{"speculation.threshold_nats", "-20", "speculation.mode", "confidence"}, settings...)...)
	clients, stop, err := openRedis(config.Endpoint{Kind: config.KindSingle, Network: "tcp", Addrs: []string{store.Addr()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	draft = vllmsim.Start(t, vllmsim.Options{Model: "d", TimeScale: 20})
	file, err := config.Parse("shed", fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools: {d: {model: d, backends: [%q]}, t: {model: t, backends: [%q]}}
routes: [{model: m, draft: d, target: t}, {model: alone, target: t}]
drain: {delay: 0s, grace: 1s}
`, draft.URL(), loaded(t, "t", 0.99).URL))
	if err != nil {
		t.Fatal(err)
	}
	r, err = app.New(t.Context(), app.Options{File: file, Stores: app.Stores{Control: clients.Control, Lookups: clients.Request}, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	started(t, r)
	eventually(t, "both pools have a reading", func() bool {
		return r.Pools["d"].Snapshot()[0].HasReading && r.Pools["t"].Snapshot()[0].HasReading
	})
	return r, draft
}

// shedBy sends a request of priority low and returns what it was shed for, "" when it
// was not.
func shedBy(t *testing.T, r *app.App, model, fields string) string {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hi"}]%s}`, model, fields)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", "low")
	resp, err := http.DefaultClient.Do(req)
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
	r, _ := pressed(t)
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
	r, draft := pressed(t)
	if err := draft.Close(); err != nil {
		t.Fatal(err)
	}
	if got := shedBy(t, r, "m", ""); !strings.Contains(got, "pool=t;") {
		t.Errorf("got %q", got)
	}
}

func TestWithTheModeOffAFullTargetSheds(t *testing.T) {
	r, _ := pressed(t, "speculation.mode", "off")
	if got := shedBy(t, r, "m", ""); !strings.Contains(got, "kv_pressure;pool=t;usage=0.99;threshold=0.8") {
		t.Errorf("got %q", got)
	}
}

func TestAboveItsThresholdLowIsShedAtOnceAndSaidToBe(t *testing.T) {
	r, _ := pressed(t, "shed.max_wait_low", "10m") // who waited would wait until the test's end
	for range 3 {
		if got := shedBy(t, r, "alone", ""); !strings.Contains(got, "pool=t;") {
			t.Errorf("got %q", got)
		}
	}
	if got := r.Shedding(); len(got) != 1 || got["t"][0] != "low" {
		t.Errorf("shedding %v", got)
	}
}

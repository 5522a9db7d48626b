package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
)

// recorded is a request of everything: a draft that broke off, a score, a takeover, a wait.
func recorded(t *testing.T, tr *Tracer) (*receipts.Trace, *receipts.Receipt) {
	t.Helper()
	began := time.Now().Add(-time.Second)
	at := tr.Begin(http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
	ms := time.Millisecond
	return at, &receipts.Receipt{
		ID: "r1", Tenant: "acme", Priority: "high", Path: "/v1/chat/completions", Route: "llama-3", Model: "llama-70b", Stream: true, Time: began, Took: time.Second, Code: 200,
		Cache: "miss", LookedUpAt: began.Add(ms), Lookup: ms, Limits: ms, Tier: "mixed", Finish: "stop", Tokens: receipts.Tokens{Prompt: 300, Accepted: 56, Target: 94},
		Cascade: &tiers.Receipt{
			Began: began.Add(2 * ms), Waited: 40 * ms, First: 300 * ms, Judged: 400 * ms,
			Verdict: accept.Verdict{Reason: accept.ReasonScore, Score: -0.3, Tokens: 57},
			Tries: []dispatch.Try{
				{Pool: "small", Backend: "b1", URL: "http://10.0.0.7:8000", Role: dispatch.RoleDraft, Waited: 30 * ms, At: 30 * ms, First: 10 * ms, Took: 300 * ms, Broke: engine.Cut, Status: 200, Tokens: 57, Span: [8]byte{1}},
				{Pool: "big", Backend: "b2", URL: "https://big", Role: dispatch.RoleScore, At: 331 * ms, Took: 60 * ms, Status: 200, Span: [8]byte{2}},
				{Pool: "big", Backend: "b2", URL: "https://big/vllm", Role: dispatch.RoleTarget, At: 410 * ms, First: 20 * ms, Took: 2 * time.Second, Status: 200, Span: [8]byte{3}},
			},
			Checks:    []tiers.Check{{Tokens: 57, Kept: 40, Score: -0.2, Reason: accept.ReasonTargetDisagrees, At: 331 * ms, Took: 60 * ms}},
			Failovers: []tiers.Failover{{Why: accept.ReasonScore, Tokens: 40, At: 405 * ms}},
		},
	}
}

func started(t *testing.T, url string, log io.Writer) (tr *Tracer, stop func()) {
	t.Helper()
	return startedIn(t, prometheus.NewRegistry(), url, log)
}

func startedIn(t *testing.T, reg *prometheus.Registry, url string, log io.Writer) (tr *Tracer, stop func()) {
	t.Helper()
	tr, err := New(Options{URL: url, Sample: 0.5, Model: func(pool string) string { return pool + "-model" }, Logger: zerolog.New(log), Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tr.Run(ctx) // the context's error
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return tr, stop
}

func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// TestNoRequestWaitsForACollector ends requests beside collectors that take nothing. The log says so once.
func TestNoRequestWaitsForACollector(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, answer := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
		"500":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("broken ", 1000), 500) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(answer)
			t.Cleanup(srv.CloseClientConnections)
			var log strings.Builder
			tr, stop := started(t, srv.URL, &log)
			at, d := recorded(t, tr)
			for range 4 * maxQueued {
				tr.End(at, d)
			}
			before := time.Now()
			stop()
			if took := time.Since(before); took > lastSendTimeout+3*time.Second {
				t.Errorf("stopping took %v", took)
			}
		})
	}
}

// counter is the value of a counter.
func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

func TestACollectorThatComesBackIsGivenTraces(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if bad.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer srv.Close()
	var log strings.Builder
	reg := prometheus.NewRegistry()
	tr, stop := startedIn(t, reg, srv.URL, &log)
	at, d := recorded(t, tr)
	spans := len(tr.build(at, d))
	for _, c := range []struct {
		refuse bool
		metric string
	}{{true, "foregate_spans_refused_total"}, {false, "foregate_spans_exported_total"}} {
		bad.Store(c.refuse)
		tr.End(at, d)
		within(t, 10*time.Second, c.metric, func() bool {
			return counter(t, reg, c.metric) == float64(spans)
		})
	}
	stop()
	if strings.Count(log.String(), "\n") != 2 {
		t.Errorf("log %s", log.String())
	}
}

// FuzzBegin holds that whatever clients send, a trace is well formed, and that only a traceparent
// as the W3C wants it decides anything.
func FuzzBegin(f *testing.F) {
	for _, seed := range []string{
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "", "-", "00--00f067aa0ba902b7-01",
	} {
		f.Add(seed, "vendor=1,other@x=2")
		f.Add(seed, strings.Repeat("x", 600))
	}
	tr, err := New(Options{URL: "http://127.0.0.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		at := tr.Begin(http.Header{"Traceparent": {parent}, "Tracestate": {state}})
		if at.ID == [16]byte{} || at.Span == [8]byte{} || at.Flags&^3 != 0 || len(at.State) > maxState {
			t.Fatalf("%+v", at)
		}
		if strings.ContainsFunc(at.State, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Fatalf("tracestate %q", at.State)
		}
		if heard := at.Parent != [8]byte{}; heard {
			if len(parent) < 55 || parent[2] != '-' || parent[:2] == "ff" {
				t.Fatalf("%q decided", parent)
			}
		} else if at.Flags&1 != 0 || at.State != "" {
			t.Fatalf("%q made %+v", parent, at)
		}
		if two := tr.Begin(http.Header{"Traceparent": {parent, parent}}); two.Parent != [8]byte{} {
			t.Fatal("one of two was chosen")
		}
	})
}

package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
)

// newTracer is a tracer that sends nothing: it does not run.
func newTracer(t *testing.T) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(tracing.Options{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func TestUpstreamIsToldWhoseChildACallIs(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		tracer   *tracing.Tracer
		flags    string // of the client's
		recorded bool
	}{
		{nil, "01", false},
		{newTracer(t), "01", true},
		{newTracer(t), "02", false},
	} {
		client := "00-" + id + "-00f067aa0ba902b7-" + c.flags
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
		r.Header.Set("Traceparent", client)
		r.Header.Set("Tracestate", "vendor=1")
		g := &Gateway{opts: Options{Tracer: c.tracer}}
		l := &accessRecord{Metadata: tiers.Metadata{Identity: dispatch.Identity{ID: "x"}}}
		g.beginTrace(l, r.Header)
		want, state := client, ""
		if c.tracer != nil {
			state = "vendor=1"
			want = "00-" + id + "-" + hex.EncodeToString(l.trace.Span[:]) + "-" + c.flags
		}
		if h := upstreamHeader(l, r); h.Get("Traceparent") != want || (c.tracer == nil) != (h.Get("Traceparent") == client) || h.Get("Tracestate") != state || l.trace.Recorded() != c.recorded {
			t.Errorf("%+v: %v, recorded %v", c, h, l.trace.Recorded())
		}
	}
}

func TestOnlyIdentifiedCallersDecideAboutTheirTraces(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	who, err := identity.New(identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("secret"))}}}})
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Identity, o.Tracer, o.Forward, o.Logger = who, newTracer(t), []string{"/v1/embeddings"}, zerolog.New(log)
	})
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"}
	for _, path := range paths {
		for _, key := range []string{"wrong", "secret"} {
			code, body := b.send(t, http.MethodPost, b.url+path, `{"model":"llama-3"}`, "Content-Type", "application/json", "Authorization", "Bearer "+key, "Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
			if (code == http.StatusUnauthorized) != (key == "wrong") {
				t.Errorf("%s with the key %s: %d %s", path, key, code, body)
			}
		}
	}
	b.Stop(t.Context())                                                                                          // every request is in the log
	known, unknown := log.holding(`"tenant":"acme","priority":"low","trace_id":"`+id), log.holding(`"code":401`) // of requests, not of receipts
	if len(known) != len(paths) || len(unknown) != len(paths) || strings.Contains(strings.Join(unknown, ""), id) {
		t.Errorf("with the client's trace:\n%s\nwithout it:\n%s", strings.Join(known, ""), strings.Join(unknown, ""))
	}
}

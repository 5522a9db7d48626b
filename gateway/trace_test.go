package gateway

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
)

// keeper is a tracer that records what it is asked to, and keeps the last traceparent.
type keeper struct {
	flags  byte
	parent atomic.Value // string
}

func (k *keeper) Begin(h http.Header) *receipts.Trace {
	k.parent.Store(h.Get("Traceparent"))
	return &receipts.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Flags: k.flags, State: "vendor=1"}
}

func (k *keeper) End(*receipts.Trace, *receipts.Receipt) {}

func TestUpstreamIsToldWhoseChildACallIs(t *testing.T) {
	const client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	r.Header.Set("Traceparent", client)
	for _, c := range []struct {
		tracer        Tracer
		parent, state string
		recorded      bool
	}{
		{nil, client, "", false},
		{&keeper{flags: 1}, "00-01000000000000000000000000000000-0200000000000000-01", "vendor=1", true},
		{&keeper{flags: 2}, "00-01000000000000000000000000000000-0200000000000000-02", "vendor=1", false},
	} {
		g := &Gateway{opts: Options{Tracer: c.tracer}}
		l := &accessRecord{Metadata: tiers.Metadata{Identity: dispatch.Identity{ID: "x"}}}
		g.beginTrace(l, r.Header)
		if h := upstreamHeader(l, r); h.Get("Traceparent") != c.parent || h.Get("Tracestate") != c.state || l.trace.Recorded() != c.recorded {
			t.Errorf("%v: %v, recorded %v", c.tracer, h, l.trace.Recorded())
		}
	}
}

func TestOnlyIdentifiedCallersDecideAboutTheirTraces(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	k := &keeper{}
	who, err := identity.New(identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("secret"))}}}})
	if err != nil {
		t.Fatal(err)
	}
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Identity, o.Tracer, o.Forward = who, k, []string{"/v1/embeddings"} })
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"} {
		for key, want := range map[string]string{"wrong": "", "secret": parent} {
			k.parent.Store("nobody asked")
			code, body := b.send(t, http.MethodPost, b.url+path, `{"model":"llama-3"}`, "Content-Type", "application/json", "Authorization", "Bearer "+key, "Traceparent", parent)
			if (code == http.StatusUnauthorized) != (key == "wrong") || k.parent.Load() != want {
				t.Errorf("%s with the key %s: %d %s, the trace's parent is %q", path, key, code, body, k.parent.Load())
			}
		}
	}
}

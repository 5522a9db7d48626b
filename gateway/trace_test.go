package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/foregate/foregate/gateway/pipeline"
)

// keeper is a tracer that records what it is asked to, and keeps the last request.
type keeper struct {
	flags byte
	last  *RequestSummary
}

func (k *keeper) Begin(http.Header) *Trace {
	return &Trace{ID: [16]byte{1}, Span: [8]byte{2}, Flags: k.flags, State: "vendor=1"}
}

func (k *keeper) End(_ *Trace, d *RequestSummary) { k.last = d }

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
		l := &accessRecord{Metadata: pipeline.Metadata{ID: "x"}}
		g.trace(l, r)
		if h := upstreamHeader(l, r); h.Get("Traceparent") != c.parent || h.Get("Tracestate") != c.state || l.trace.recorded() != c.recorded {
			t.Errorf("%v: %v, recorded %v", c.tracer, h, l.trace.recorded())
		}
	}
}

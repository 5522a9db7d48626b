package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers/receipt"
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

// before is what upstream was told before there were traces: what the benchmark compares with.
func before(r *http.Request) http.Header {
	h := http.Header{}
	if t := r.Header.Get("Traceparent"); traceparent(t) {
		h["Traceparent"] = []string{t}
	}
	return h
}

// BenchmarkTrace is what a request pays on its way: for nothing (as it was before there were
// traces), where they are off, where its trace is passed on, and where it is recorded.
func BenchmarkTrace(b *testing.B) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	rc := &receipt.Receipt{}
	b.Run("before", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			before(r)
		}
	})
	for _, c := range []struct {
		name   string
		tracer Tracer
	}{{"off", nil}, {"passed_on", &keeper{}}, {"recorded", &keeper{flags: 1}}} {
		b.Run(c.name, func(b *testing.B) {
			g := &Gateway{opts: Options{Tracer: c.tracer}}
			b.ReportAllocs()
			l := &accessRecord{Metadata: pipeline.Metadata{ID: "x"}, Record: pipeline.Record{Receipt: rc}}
			for b.Loop() {
				g.trace(l, r)
				upstreamHeader(l, r)
				if l.trace.recorded() {
					g.opts.Tracer.End(l.trace, summaryOf(l, r, time.Second))
				}
			}
		})
	}
}

func TestARequestThatIsNotTracedPaysNothing(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	g, l := &Gateway{}, &accessRecord{Metadata: pipeline.Metadata{ID: "x"}}
	was := testing.AllocsPerRun(100, func() { before(r) })
	is := testing.AllocsPerRun(100, func() {
		g.trace(l, r)
		upstreamHeader(l, r)
		if l.trace.recorded() {
			g.opts.Tracer.End(l.trace, summaryOf(l, r, time.Second))
		}
	})
	if is > was {
		t.Errorf("%v allocations, %v without", is, was)
	}
}

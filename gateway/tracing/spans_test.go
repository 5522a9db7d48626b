package tracing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"

	"github.com/foregate/foregate/internal/golden"
)

// written is a trace for people: times in ms from when the request came.
func written(began time.Time, spans []sdk.ReadOnlySpan) string {
	var b strings.Builder
	ms := func(t time.Time) float64 { return float64(t.Sub(began).Microseconds()) / 1000 }
	for _, s := range spans {
		fmt.Fprintf(&b, "%s (%s) %g … %g ms %s %s\n", s.Name(), s.SpanKind(), ms(s.StartTime()), ms(s.EndTime()), s.Status().Code, s.Status().Description)
		for _, kv := range s.Attributes() {
			fmt.Fprintf(&b, "    %s = %s\n", kv.Key, kv.Value.String())
		}
		for _, e := range s.Events() {
			fmt.Fprintf(&b, "  ! %s %g ms", e.Name, ms(e.Time))
			for _, kv := range e.Attributes {
				fmt.Fprintf(&b, " %s=%s", kv.Key, kv.Value.String())
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestATraceTellsWhatItsReceiptDoes(t *testing.T) {
	tr, err := New(Options{URL: "http://127.0.0.1:1", Model: func(pool string) string { return pool + "-model" }})
	if err != nil {
		t.Fatal(err)
	}
	at, d := recorded(t, tr)
	spans := tr.build(at, d)
	got := written(d.Time, spans)
	for i, s := range spans {
		if s.SpanContext().TraceID() != at.ID {
			t.Errorf("%s is in another trace", s.Name())
		}
		if root := i == len(spans)-1; root {
			if s.SpanContext().SpanID() != at.Span || s.Parent().SpanID() != at.Parent || !s.Parent().IsRemote() {
				t.Errorf("the request is %v below %v", s.SpanContext(), s.Parent())
			}
		} else if s.Parent().SpanID() != at.Span {
			t.Errorf("%s hangs elsewhere", s.Name())
		}
	}
	for _, c := range []receipts.Receipt{
		{Path: "/v1/chat/completions", Code: 499, Error: "client_left", Route: "m"},
		{Path: "/v1/completions", Code: 597, Error: "upstream_cut", Route: "m"},
		{Path: "/v1/embeddings", Code: 200, Route: "m", Cache: "bypass", Cascade: &tiers.Receipt{Began: d.Time, Tries: []dispatch.Try{{Pool: "p", Role: dispatch.RoleTarget, URL: "nonsense", Took: 1}}}},
		{Path: "/v1/rerank", Code: 429, Error: "rate_limit_exceeded"},
		{Path: "/v1/chat/completions", Code: 503, Error: "shed", Route: "m", Cascade: &tiers.Receipt{Began: d.Time, Waited: 20 * time.Millisecond}},
		{Path: "/v1/chat/completions", Code: 200, Route: "m", Cache: "local", Tier: "draft", Finish: "stop", Tokens: receipts.Tokens{Prompt: 3, Accepted: 4}, Model: "small",
			TargetPool: "old", DivertedFrom: "new", Content: &receipts.Content{Input: `[{"role":"user"}]`, Output: `[{"role":"assistant"}]`, Truncated: true}},
	} {
		c.Time, c.Took, c.Priority = d.Time, 30*time.Millisecond, "normal"
		got += "\n" + written(d.Time, tr.build(&receipts.Trace{ID: at.ID, Span: at.Span, Flags: 1}, &c))
	}
	const file = "testdata/spans.txt"
	golden.Check(t, file, got)
}

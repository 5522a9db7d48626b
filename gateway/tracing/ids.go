package tracing

import (
	"context"
	"sync"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// presetIDs is the SDK's source of ids. Ids that were sent upstream during the request come from the context
// that starts the span; other spans get new ones.
type presetIDs struct{}

type presetIDsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// with returns a context in which the next span has these ids; a zero span id means a new one.
func with(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	if !s.IsValid() {
		s = newSpan()
	}
	return context.WithValue(ctx, presetIDsKey{}, ids{t, s})
}

// NewIDs implements sdk.IDGenerator.
func (presetIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	i, _ := ctx.Value(presetIDsKey{}).(ids)
	return i.trace, i.span
}

// NewSpanID implements sdk.IDGenerator.
func (presetIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	i, _ := ctx.Value(presetIDsKey{}).(ids)
	return i.span
}

// spanCollector holds the spans that were made since they were last taken.
type spanCollector struct {
	mu    sync.Mutex
	spans []sdk.ReadOnlySpan
}

// OnStart implements sdk.SpanProcessor.
func (*spanCollector) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (g *spanCollector) OnEnd(s sdk.ReadOnlySpan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, s)
}

// Shutdown implements sdk.SpanProcessor.
func (*spanCollector) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (*spanCollector) ForceFlush(context.Context) error { return nil }

func (g *spanCollector) take() []sdk.ReadOnlySpan {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans := g.spans
	g.spans = nil
	return spans
}

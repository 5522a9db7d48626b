package tracing

import (
	"context"
	"sync"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// given is the SDK's source of ids: those that were told upstream while the request was on its
// way, from the context that a span is started with. Spans that nobody was told of get new ones.
type given struct{}

type givenKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// with is a context in which the next span has these ids; its own is new where it is zero.
func with(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	if !s.IsValid() {
		s = newSpan()
	}
	return context.WithValue(ctx, givenKey{}, ids{t, s})
}

// NewIDs implements sdk.IDGenerator.
func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	i, _ := ctx.Value(givenKey{}).(ids)
	return i.trace, i.span
}

// NewSpanID implements sdk.IDGenerator.
func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	i, _ := ctx.Value(givenKey{}).(ids)
	return i.span
}

// gathered are the spans that were made since they were last taken.
type gathered struct {
	mu    sync.Mutex
	spans []sdk.ReadOnlySpan
}

// OnStart implements sdk.SpanProcessor.
func (*gathered) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (g *gathered) OnEnd(s sdk.ReadOnlySpan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, s)
}

// Shutdown implements sdk.SpanProcessor.
func (*gathered) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (*gathered) ForceFlush(context.Context) error { return nil }

func (g *gathered) take() []sdk.ReadOnlySpan {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans := g.spans
	g.spans = nil
	return spans
}

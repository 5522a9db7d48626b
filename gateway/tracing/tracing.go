package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/foregate/foregate/gateway/receipts"
)

const (
	maxQueued       = 1024                   // spans that wait to be sent: of a request at most 8, one of them with content
	batchSize       = 512                    // spans in one message
	batchDelay      = 500 * time.Millisecond // how long a span waits for others
	tryTimeout      = 5 * time.Second        // for one try to send a message
	sendTimeout     = 10 * time.Second       // for a message, with all tries
	lastSendTimeout = 2 * time.Second        // for the rest when the gateway stops
	maxState        = 512                    // bytes of a tracestate that is passed on: the minimum by the W3C
	maxDetail       = 300                    // bytes of an error in the log
)

// Options configure a [Tracer]. URL is required.
type Options struct {
	URL     string                   // of the collector; /v1/traces is added to it
	Sample  float64                  // share of the requests without a traceparent, 0 … 1
	Headers map[string]string        // required by the collector
	Version string                   // of the gateway, "" is not told
	Model   func(pool string) string // the engines' model name of a pool; nil: not exported

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Tracer exports a gateway's traces. It must be run.
type Tracer struct {
	model     func(pool string) string
	root      sdk.Sampler
	processor sdk.SpanProcessor
	resource  *resource.Resource
	scope     instrumentation.Scope
}

// New makes a tracer. It connects only when it has something to send.
func New(o Options) (*Tracer, error) {
	if o.Model == nil {
		o.Model = func(string) string { return "" }
	}
	ctx := context.Background()
	res, err := newResource(o.Version)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimRight(o.URL, "/")+"/v1/traces"),
		otlptracehttp.WithHeaders(o.Headers), // ignore headers in the environment
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithHTTPClient(newClient()),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 2 * time.Second, MaxElapsedTime: tryTimeout}),
	)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	counted := &countedExporter{SpanExporter: exporter, metrics: newMetrics(o.Registerer), log: o.Logger}
	return &Tracer{
		model: o.Model, root: sdk.TraceIDRatioBased(o.Sample), resource: res,
		processor: sdk.NewBatchSpanProcessor(counted, sdk.WithMaxQueueSize(maxQueued), sdk.WithMaxExportBatchSize(batchSize),
			sdk.WithBatchTimeout(batchDelay), sdk.WithExportTimeout(sendTimeout)),
		scope: instrumentation.Scope{Name: "github.com/foregate/foregate", Version: o.Version, SchemaURL: semconv.SchemaURL},
	}, nil
}

// newResource describes the gateway, with a version unless that is "". The environment (OTEL_RESOURCE_ATTRIBUTES) may add to
// it; an error says that it is malformed.
func newResource(version string) (*resource.Resource, error) {
	about := []attribute.KeyValue{semconv.ServiceName("foregate")}
	if version != "" {
		about = append(about, semconv.ServiceVersion(version))
	}
	return resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(about...), resource.WithFromEnv())
}

// newClient returns an HTTP client. Redirects are not followed, because they would get what is sent, and the headers with its
// key, too.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       tryTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Begin chooses the trace of a request by its headers, and whether it is recorded. The sender of a traceparent decides about recording; other requests are
// sampled by their trace's id, as other services would.
func (t *Tracer) Begin(h http.Header) *receipts.Trace {
	at := &receipts.Trace{Span: newSpan()}
	if from := parentOf(h); from.IsValid() {
		at.ID, at.Parent, at.Flags, at.State = from.TraceID(), from.SpanID(), byte(from.TraceFlags()), from.TraceState().String()
		return at
	}
	binary.BigEndian.PutUint64(at.ID[:8], rand.Uint64())
	binary.BigEndian.PutUint64(at.ID[8:], max(rand.Uint64(), 1)) // zero is not a valid id
	at.Flags = byte(trace.FlagsRandom)
	if t.root.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: at.ID}).Decision == sdk.RecordAndSample {
		at.Flags |= byte(trace.FlagsSampled)
	}
	return at
}

// parentOf returns the trace context of a request; it is invalid if there is none, if there are two, or if it
// is malformed.
func parentOf(h http.Header) trace.SpanContext {
	parents := h["Traceparent"]
	if len(parents) != 1 {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": parents[0]}
	if state := strings.Join(h["Tracestate"], ","); len(state) <= maxState {
		carrier["tracestate"] = state
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

func newSpan() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], max(rand.Uint64(), 1))
	return id
}

// End receives a finished request whose trace is recorded. It waits for nothing: spans that find the queue full are dropped.
func (t *Tracer) End(at *receipts.Trace, d *receipts.Receipt) {
	for _, s := range t.build(at, d) {
		t.processor.OnEnd(s)
	}
}

// Run waits until ctx ends, and then sends the rest, for at most two seconds.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSendTimeout)
	defer cancel()
	_ = t.processor.Shutdown(last) // what was not sent by then is lost
	return ctx.Err()
}

// countedExporter counts what the collector takes, and logs each change of its state once.
type countedExporter struct {
	sdk.SpanExporter
	metrics *metrics
	log     zerolog.Logger
	failing bool // the last message failed
}

// ExportSpans implements [sdk.SpanExporter]. It is called by one goroutine.
func (e *countedExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		e.metrics.refused.Add(float64(len(spans)))
		if why := err.Error(); !e.failing {
			e.log.Warn().Str("error", strings.ToValidUTF8(why[:min(len(why), maxDetail)], "")).Msg("the trace collector does not take traces; they are dropped")
		}
	default:
		e.metrics.exported.Add(float64(len(spans)))
		if e.failing {
			e.log.Info().Msg("the trace collector takes traces again")
		}
	}
	e.failing = err != nil
	return nil // it was logged
}

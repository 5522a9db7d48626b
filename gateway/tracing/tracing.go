package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
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
	maxQueued       = 2048                   // finished requests that wait to be sent: 1 kB each, at most 8, without content
	maxContent      = 16 << 20               // bytes of content of requests that wait or are being sent
	batchSize       = 64                     // requests in one message
	batchDelay      = 500 * time.Millisecond // how long a request waits for others
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
	model    func(pool string) string
	log      zerolog.Logger
	metrics  *metrics
	root     sdk.Sampler
	queue    chan finishedRequest
	content  atomic.Int64 // bytes that wait or are being sent
	exporter sdk.SpanExporter
	resource *resource.Resource
	scope    instrumentation.Scope
	failing  bool // the last message failed
}

// finishedRequest is a finished request to export.
type finishedRequest struct {
	trace   *receipts.Trace
	summary *receipts.Receipt
}

// New makes a tracer. It connects only when [Tracer.Run] has something to send.
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
	return &Tracer{
		model: o.Model, log: o.Logger, metrics: newMetrics(o.Registerer), root: sdk.TraceIDRatioBased(o.Sample),
		queue: make(chan finishedRequest, maxQueued), exporter: exporter, resource: res,
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

// End receives a finished request whose trace is recorded.
func (t *Tracer) End(at *receipts.Trace, d *receipts.Receipt) {
	size := int64(d.Content.Size())
	if t.content.Add(size) <= maxContent || size == 0 {
		select {
		case t.queue <- finishedRequest{at, d}:
			return
		default:
		}
	}
	t.content.Add(-size)
	t.metrics.dropped.WithLabelValues(dropQueue).Inc()
}

// Run sends what is queued every [batchDelay] until ctx ends; then the rest, for at most two seconds.
func (t *Tracer) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastSendTimeout, cancel) })()
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		for work.Err() == nil && len(t.queue) > 0 {
			batch := make([]finishedRequest, min(len(t.queue), batchSize))
			for i := range batch {
				batch[i] = <-t.queue // nobody else takes any
			}
			t.send(work, batch)
		}
	}
	t.metrics.dropped.WithLabelValues(dropStop).Add(float64(len(t.queue)))
	return ctx.Err()
}

// send sends requests to the collector. If it fails, they are dropped: counters and one log line show that
// the collector is unavailable.
func (t *Tracer) send(ctx context.Context, batch []finishedRequest) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var content int64
	var spans []sdk.ReadOnlySpan
	for _, o := range batch {
		spans = append(spans, t.build(o.trace, o.summary)...)
		content += int64(o.summary.Content.Size())
	}
	defer t.content.Add(-content)
	err := t.exporter.ExportSpans(ctx, spans)
	if err == nil {
		t.metrics.exported.Add(float64(len(batch)))
	} else {
		t.metrics.dropped.WithLabelValues(dropRefused).Add(float64(len(batch)))
	}
	t.tell(err)
}

// tell logs a change of the collector's state, once.
func (t *Tracer) tell(err error) {
	switch failing := err != nil; {
	case failing == t.failing:
		return
	case failing:
		why := err.Error()
		t.log.Warn().Str("error", strings.ToValidUTF8(why[:min(len(why), maxDetail)], "")).Msg("the trace collector does not take traces; they are dropped")
	default:
		t.log.Info().Msg("the trace collector takes traces again")
	}
	t.failing = err != nil
}

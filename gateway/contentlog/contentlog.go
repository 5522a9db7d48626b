package contentlog

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/collector"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	maxQueued       = 256                    // records that wait or are being sent: at most 192 KiB of content each
	batchSize       = 16                     // records in one message
	batchDelay      = 500 * time.Millisecond // how long a record waits for others
	sendTimeout     = 10 * time.Second       // for a message, with all tries
	lastSendTimeout = 2 * time.Second        // for the rest when the gateway stops
)

// Options configure a [Log]. URL is required.
type Options struct {
	URL     string            // of the collector; /v1/logs is added to it
	Share   float64           // of the generations, 0 … 1
	Input   bool              // the messages of requests are exported
	Output  bool              // answers are exported
	Headers map[string]string // required by the collector
	Version string            // of the gateway, "" is not told

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Log exports a share of the generations. It must be run. It is safe for concurrent use.
type Log struct {
	o        Options
	seed     maphash.Seed
	pending  atomic.Int64 // records that wait or are being sent
	metrics  *metrics
	provider *sdk.LoggerProvider
	logger   log.Logger
}

var _ gateway.ContentLog = (*Log)(nil)

// New makes a log. It connects only when it has something to send.
func New(o Options) (*Log, error) {
	ctx := context.Background()
	res, err := collector.NewResource(o.Version)
	if err != nil {
		return nil, fmt.Errorf("contentlog: %w", err)
	}
	otlp, err := otlploghttp.New(ctx,
		otlploghttp.WithEndpointURL(strings.TrimRight(o.URL, "/")+"/v1/logs"),
		otlploghttp.WithHeaders(o.Headers), // ignore headers in the environment
		otlploghttp.WithCompression(otlploghttp.GzipCompression),
		otlploghttp.WithHTTPClient(collector.NewClient()),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 2 * time.Second, MaxElapsedTime: collector.TryTimeout}),
	)
	if err != nil {
		return nil, fmt.Errorf("contentlog: %w", err)
	}
	l := &Log{o: o, seed: maphash.MakeSeed(), metrics: newMetrics(o.Registerer)}
	batches := sdk.NewBatchProcessor(&countingExporter{Exporter: otlp, pending: &l.pending, metrics: l.metrics, log: o.Logger},
		sdk.WithMaxQueueSize(maxQueued), sdk.WithExportMaxBatchSize(batchSize), sdk.WithExportInterval(batchDelay), sdk.WithExportTimeout(sendTimeout))
	l.provider = sdk.NewLoggerProvider(sdk.WithResource(res), sdk.WithProcessor(batches))
	l.logger = l.provider.Logger("github.com/foregate/foregate", log.WithInstrumentationVersion(o.Version), log.WithSchemaURL(semconv.SchemaURL))
	return l, nil
}

// Begin implements [gateway.ContentLog].
func (l *Log) Begin(id string, r *openai.Request) gateway.ContentEntry {
	if !sampled(maphash.String(l.seed, id), l.o.Share) {
		return nil
	}
	return &entry{log: l, request: r, kind: r.Kind, model: r.Model}
}

// sampled reports whether a request is in a share by the hash of its id.
func sampled(hash uint64, share float64) bool {
	return share >= 1 || float64(hash) < share*math.MaxUint64
}

// emit queues a record, or drops it if too many wait.
func (l *Log) emit(ctx context.Context, r log.Record) {
	if l.pending.Add(1) > maxQueued {
		l.pending.Add(-1)
		l.metrics.records.WithLabelValues(resultQueue).Inc()
		return
	}
	l.logger.Emit(ctx, r)
}

// Run ends with ctx; then it sends what waits, for at most two seconds. The SDK sends until then.
func (l *Log) Run(ctx context.Context) error {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSendTimeout)
	defer cancel()
	_ = l.provider.Shutdown(last) // the exporter counts and logs failures
	if left := l.pending.Swap(0); left > 0 {
		l.metrics.records.WithLabelValues(resultStop).Add(float64(left))
	}
	return ctx.Err()
}

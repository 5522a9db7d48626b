package contentlog

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/log"
)

// What came of a record.
const (
	resultSent    = "sent"
	resultQueue   = "queue"   // dropped: too many waited
	resultRefused = "refused" // dropped: the collector was unavailable, too slow, or refused it
	resultStop    = "stop"    // dropped: the gateway stopped before it could be sent
)

// maxDetail bounds an error in the log, in bytes.
const maxDetail = 300

type metrics struct{ records *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_export_records_total",
		Help: "Records of the content export: accepted by the collector (sent), or dropped because the queue was full (queue), the collector refused them (refused), or the gateway stopped (stop).",
	}, []string{"result"})}
	for _, result := range []string{resultSent, resultQueue, resultRefused, resultStop} {
		m.records.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.records)
	}
	return m
}

// countingExporter counts what came of the records, and logs when the collector fails and works again. The SDK calls
// Export from one goroutine at a time.
type countingExporter struct {
	sdk.Exporter
	pending *atomic.Int64
	metrics *metrics
	log     zerolog.Logger
	failing bool // the last message failed
}

// Export implements [sdk.Exporter]. It never fails: failures are counted and logged here. It recovers panics of the
// exporter, because the SDK's goroutine does not.
func (e *countingExporter) Export(ctx context.Context, records []sdk.Record) (_ error) {
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		e.count(err, len(records))
	}()
	sent := make([]sdk.Record, len(records))
	for i := range records {
		sent[i] = structured(&records[i])
	}
	err = e.Exporter.Export(ctx, sent)
	return nil
}

// count settles n records.
func (e *countingExporter) count(err error, n int) {
	result := resultSent
	if err != nil {
		result = resultRefused
	}
	e.metrics.records.WithLabelValues(result).Add(float64(n))
	e.pending.Add(int64(-n))
	switch failing := err != nil; {
	case failing == e.failing:
		return
	case failing:
		why := err.Error()
		e.log.Warn().Str("error", strings.ToValidUTF8(why[:min(len(why), maxDetail)], "")).Msg("the collector does not take the content export; records are dropped")
	default:
		e.log.Info().Msg("the collector takes the content export again")
	}
	e.failing = err != nil
}

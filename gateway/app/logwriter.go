package app

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog/diode"
)

const (
	maxQueuedLines   = 8192                   // that may wait to be written; a line of a request has some 450 bytes
	logFlushInterval = 500 * time.Millisecond // each look wakes an idle process
	logCloseTimeout  = time.Second            // for the remaining lines, at the end
)

// NewLogWriter returns a writer that never blocks a request: lines that a full disk or an unread pipe cannot take are
// dropped, the oldest first, and counted. stop writes the remaining lines, for at most a second.
func NewLogWriter(w io.Writer, reg prometheus.Registerer) (lines io.Writer, stop func()) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "foregate_log_lines_dropped_total", Help: "Log lines that were dropped because the log was too slow.",
	})
	reg.MustRegister(dropped)
	q := diode.NewWriter(lineWriter{w, dropped}, maxQueuedLines, logFlushInterval, func(n int) { dropped.Add(float64(n)) })
	return q, func() {
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = q.Close() // lineWriter has no Close
		}()
		select {
		case <-written:
		case <-time.After(logCloseTimeout):
		}
	}
}

// lineWriter counts lines that cannot be written.
type lineWriter struct {
	io.Writer
	dropped prometheus.Counter
}

// Write writes one line. The lines after one that failed are tried again.
func (w lineWriter) Write(line []byte) (int, error) {
	n, err := w.Writer.Write(line)
	if err != nil {
		w.dropped.Inc()
	}
	return n, err
}

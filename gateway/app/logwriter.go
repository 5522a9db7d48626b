package app

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog/diode"
)

const (
	maxQueuedLines   = 4096                  // lines that may wait to be written
	logPollInterval  = 10 * time.Millisecond // time between two reads of the queue
	logBufferBytes   = 64 << 10              // bytes written at once
	logFlushInterval = 100 * time.Millisecond
	logCloseTimeout  = time.Second // for the remaining lines, at the end
)

// NewLogWriter returns a writer that never blocks a request: lines that a full disk or an unread pipe cannot
// take are dropped and counted. stop writes the remaining lines, for at most a second.
func NewLogWriter(w io.Writer, reg prometheus.Registerer) (lines io.Writer, stop func()) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "foregate_log_lines_dropped_total", Help: "Log lines that were dropped because the log was too slow.",
	})
	reg.MustRegister(dropped)
	lost := func(n int) { dropped.Add(float64(n)) }
	ring := diode.NewWriter(newLineBuffer(w, lost), maxQueuedLines, logPollInterval, lost)
	return ring, func() {
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = ring.Close() // the process ends; there is nobody to tell
		}()
		select {
		case <-written:
		case <-time.After(logCloseTimeout):
		}
	}
}

// lineBuffer collects lines and writes them together, after logFlushInterval at the latest: a write per line
// would cost as much as the line itself. Lines that cannot be written are dropped and counted; later lines
// are tried again.
type lineBuffer struct {
	mu    sync.Mutex
	w     io.Writer
	out   *bufio.Writer
	lines int  // number of lines in out
	due   bool // a flush is scheduled
	lost  func(lines int)
}

func newLineBuffer(w io.Writer, lost func(lines int)) *lineBuffer {
	return &lineBuffer{w: w, out: bufio.NewWriterSize(w, logBufferBytes), lost: lost}
}

// Write takes one line.
func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due {
		b.due = true
		time.AfterFunc(logFlushInterval, func() { _ = b.Close() }) // flushes; drops are counted
	}
	if len(p) > b.out.Available() { // write only whole lines, so that the number of dropped lines is exact
		_ = b.flush() // drops are counted; this line is tried anyway
	}
	b.lines++
	n, err := b.out.Write(p)
	if err != nil {
		b.lose()
	}
	return n, err
}

// Close writes the collected lines. More may follow.
func (b *lineBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = false
	return b.flush()
}

// flush writes the collected lines; b.mu is held.
func (b *lineBuffer) flush() error {
	err := b.out.Flush()
	if err != nil {
		b.lose()
	}
	b.lines = 0
	return err
}

// lose drops the collected lines. A bufio.Writer keeps its first error for ever, so it is replaced.
func (b *lineBuffer) lose() {
	b.out.Reset(b.w)
	b.lost(b.lines)
	b.lines = 0
}

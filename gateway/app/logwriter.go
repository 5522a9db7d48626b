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
	logPollInterval  = 10 * time.Millisecond // how often they are taken up
	logBufferBytes   = 64 << 10              // bytes written at once
	logFlushInterval = 100 * time.Millisecond
	logCloseTimeout  = time.Second // for the last of them, at the end
)

// NewLogWriter returns a writer that never blocks a request: lines that a full disk or
// a pipe nobody reads cannot take are dropped and counted. stop writes what is
// left, or gives it up after a second.
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
			_ = ring.Close() // the process ends; nobody is left to tell
		}()
		select {
		case <-written:
		case <-time.After(logCloseTimeout):
		}
	}
}

// lineBuffer gathers lines and writes them together, at the latest after
// logFlushInterval: a write for each would cost as much as the line itself. Lines that
// could not be written are lost and counted; the next ones are tried again.
type lineBuffer struct {
	mu    sync.Mutex
	w     io.Writer
	out   *bufio.Writer
	lines int  // gathered in out
	due   bool // a flush is under way
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
		time.AfterFunc(logFlushInterval, func() { _ = b.Close() }) // flushes; what was lost is counted
	}
	if len(p) > b.out.Available() { // whole lines leave together, so that it is known which were lost
		_ = b.flush() // counted; this line may have better luck
	}
	b.lines++
	n, err := b.out.Write(p)
	if err != nil {
		b.lose()
	}
	return n, err
}

// Close writes what was gathered. More may follow.
func (b *lineBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = false
	return b.flush()
}

// flush writes what was gathered; b.mu is held.
func (b *lineBuffer) flush() error {
	err := b.out.Flush()
	if err != nil {
		b.lose()
	}
	b.lines = 0
	return err
}

// lose gives up what is gathered. A bufio.Writer keeps its first error for
// ever, so it is made anew.
func (b *lineBuffer) lose() {
	b.out.Reset(b.w)
	b.lost(b.lines)
	b.lines = 0
}

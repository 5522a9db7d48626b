package app

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxQueuedLog     = 4 << 20  // bytes of lines that may wait to be written
	logBufferBytes   = 64 << 10 // bytes written at once
	maxSpare         = 4        // empty buffers that are kept
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
	q := newLineQueue(w, func(n int) { dropped.Add(float64(n)) })
	written := make(chan struct{})
	go func() {
		defer close(written)
		q.run()
	}()
	return q, func() {
		q.close()
		select {
		case <-written:
		case <-time.After(logCloseTimeout):
		}
	}
}

// lineQueue collects lines and writes them together, after logFlushInterval at the latest: a write per line
// would cost as much as the line itself. Each Write takes one line and only copies it: a queue of lines
// (zerolog's diode) takes three allocations for each (BenchmarkLogWriter). Lines that do not fit or cannot be
// written are dropped and counted; later lines are tried again.
type lineQueue struct {
	w     io.Writer
	lost  func(lines int)
	first chan struct{} // capacity 1: there is a line to be written
	full  chan struct{} // capacity 1: there is enough to be written at once
	ended chan struct{}

	mu     sync.Mutex
	pieces [][]byte // of whole lines, which are written at once
	size   int      // bytes of pieces
	spare  [][]byte // empty pieces, at most maxSpare
	closed bool
}

func newLineQueue(w io.Writer, lost func(lines int)) *lineQueue {
	return &lineQueue{w: w, lost: lost, first: make(chan struct{}, 1), full: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Write takes one line. It never fails and never blocks.
func (q *lineQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	had := q.size
	fits := !q.closed && had+len(line) <= maxQueuedLog
	if fits {
		q.add(line)
	}
	q.mu.Unlock()
	switch {
	case !fits:
		q.lost(1)
	case had == 0:
		wake(q.first)
	case had < logBufferBytes && had+len(line) >= logBufferBytes:
		wake(q.full)
	}
	return len(line), nil
}

// add appends a line to the last piece, or to a new one if it does not fit. q.mu is held.
func (q *lineQueue) add(line []byte) {
	last := len(q.pieces) - 1
	if last < 0 || len(q.pieces[last])+len(line) > cap(q.pieces[last]) {
		q.pieces = append(q.pieces, q.piece(len(line)))
		last++
	}
	q.pieces[last] = append(q.pieces[last], line...)
	q.size += len(line)
}

// piece returns an empty piece with room for so many bytes. q.mu is held.
func (q *lineQueue) piece(room int) []byte {
	n := len(q.spare)
	if n == 0 || room > logBufferBytes {
		return make([]byte, 0, max(room, logBufferBytes))
	}
	p := q.spare[n-1]
	q.spare = q.spare[:n-1]
	return p
}

// wake sets a signal, which may be set already.
func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// close ends run when it has written what is queued. Later lines are dropped.
func (q *lineQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.ended)
	}
}

// run writes lines until close.
func (q *lineQueue) run() {
	for {
		select {
		case <-q.first:
		case <-q.ended:
			q.flush()
			return
		}
		select {
		case <-time.After(logFlushInterval):
		case <-q.full:
		case <-q.ended:
		}
		q.flush()
	}
}

// flush writes what is queued. Only one goroutine may call it.
func (q *lineQueue) flush() {
	q.mu.Lock()
	pieces := q.pieces
	q.pieces, q.size = nil, 0
	q.mu.Unlock()
	for _, p := range pieces {
		if _, err := q.w.Write(p); err != nil {
			q.lost(bytes.Count(p, []byte{'\n'}))
		}
		q.mu.Lock()
		if cap(p) == logBufferBytes && len(q.spare) < maxSpare {
			q.spare = append(q.spare, p[:0])
		}
		q.mu.Unlock()
	}
}

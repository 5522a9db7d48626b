package embedded

import (
	"bytes"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBacklog is how many writes may wait for an embedded server; a pipeline of
// go-redis is one write for every 32 kB.
const pipeBacklog = 256

// pipe is the client's end of a net.Pipe whose Write does not wait for the reader. The
// embedded server answers a pipeline while it reads it, and both ends would wait for
// each other as soon as one is longer than what the server reads ahead.
type pipe struct {
	net.Conn
	out  chan []byte
	done chan struct{}
	once sync.Once

	mu    sync.Mutex
	until time.Time // writes; zero is for ever
}

// Pipe makes the client's end of a net.Pipe to a miniredis one whose Write does not wait for the reader.
func Pipe(c net.Conn) net.Conn { return newPipe(c) }

func newPipe(c net.Conn) *pipe {
	p := &pipe{Conn: c, out: make(chan []byte, pipeBacklog), done: make(chan struct{})}
	go p.send()
	return p
}

// send writes what waits until the pipe is closed.
func (p *pipe) send() {
	for {
		select {
		case b := <-p.out:
			if _, err := p.Conn.Write(b); err != nil {
				_ = p.Close() // the next read tells
			}
		case <-p.done:
			return
		}
	}
}

// Write queues b. When too much waits already it waits, until the deadline that was
// set before it began.
func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-p.done:
		return 0, net.ErrClosed
	default:
	}
	select {
	case p.out <- bytes.Clone(b):
		return len(b), nil
	default:
	}
	late, stop := p.late()
	defer stop()
	select {
	case p.out <- bytes.Clone(b):
		return len(b), nil
	case <-p.done:
		return 0, net.ErrClosed
	case <-late:
		return 0, os.ErrDeadlineExceeded
	}
}

// late tells when the deadline for writing is over: never, when there is none.
func (p *pipe) late() (late <-chan time.Time, stop func()) {
	p.mu.Lock()
	until := p.until
	p.mu.Unlock()
	if until.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(until))
	return t.C, func() { t.Stop() }
}

// SetWriteDeadline holds for writes that begin after it.
func (p *pipe) SetWriteDeadline(until time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = until
	return nil
}

// SetDeadline holds for both directions.
func (p *pipe) SetDeadline(until time.Time) error {
	_ = p.SetWriteDeadline(until)
	return p.SetReadDeadline(until)
}

// Close ends both directions.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.Conn.Close()
}

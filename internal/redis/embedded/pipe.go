package embedded

import (
	"bytes"
	"net"
	"sync"
)

// pipe is the client's end of a net.Pipe whose Write does not wait for the reader. miniredis answers a pipeline while
// it reads it, and both ends would wait for each other.
type pipe struct {
	net.Conn
	mu     sync.Mutex
	more   sync.Cond
	queue  bytes.Buffer
	closed bool
}

// Pipe makes the client's end of a net.Pipe to a miniredis one whose Write does not wait for the reader.
func Pipe(c net.Conn) net.Conn {
	p := &pipe{Conn: c}
	p.more.L = &p.mu
	go p.send()
	return p
}

// send writes what waits until the pipe is closed.
func (p *pipe) send() {
	for {
		p.mu.Lock()
		for p.queue.Len() == 0 && !p.closed {
			p.more.Wait()
		}
		next := bytes.Clone(p.queue.Bytes())
		p.queue.Reset()
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		if _, err := p.Conn.Write(next); err != nil {
			_ = p.Close() // the next read tells
		}
	}
}

// Write queues b.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.more.Signal()
	return p.queue.Write(b)
}

// Close ends both directions.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.more.Signal()
	p.mu.Unlock()
	return p.Conn.Close()
}

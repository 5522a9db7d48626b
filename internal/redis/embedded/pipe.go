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
	mu    sync.Mutex
	queue bytes.Buffer
	busy  bool // send runs, or has failed
}

// Pipe makes the client's end of a net.Pipe to a miniredis one whose Write does not wait for the reader.
func Pipe(c net.Conn) net.Conn { return &pipe{Conn: c} }

// Write queues b.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.busy {
		p.busy = true
		go p.send()
	}
	return p.queue.Write(b)
}

// send writes what waits.
func (p *pipe) send() {
	for {
		p.mu.Lock()
		next := bytes.Clone(p.queue.Bytes())
		p.queue.Reset()
		p.busy = len(next) > 0
		p.mu.Unlock()
		if len(next) == 0 {
			return
		}
		if _, err := p.Conn.Write(next); err != nil {
			_ = p.Close() // the next read tells
			return
		}
	}
}

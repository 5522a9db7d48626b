package main

import (
	"bytes"
	"net"
	"sync"
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
}

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

// Write queues b.
func (p *pipe) Write(b []byte) (int, error) {
	select {
	case p.out <- bytes.Clone(b):
		return len(b), nil
	case <-p.done:
		return 0, net.ErrClosed
	}
}

// Close ends both directions.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.Conn.Close()
}

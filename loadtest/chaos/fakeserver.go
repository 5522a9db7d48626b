package chaos

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"sync"
)

// FakeServer answers every command with what the row chooses: it stands for a hostile Redis, or for one
// with an answer that a real Redis rarely gives.
type FakeServer struct {
	Addr string

	listener net.Listener
	say      func(w *bufio.Writer) error // in reply to anything; an error ends the connection
	running  sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

// NewFakeServer starts one. say writes one reply, or goes on writing until an error.
func NewFakeServer(say func(w *bufio.Writer) error) (*FakeServer, error) {
	l, err := listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &FakeServer{Addr: l.Addr().String(), listener: l, say: say, conns: map[net.Conn]bool{}}
	f.running.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && f.keep(conn) {
				f.running.Go(func() { f.serve(conn) })
			}
		}
	})
	return f, nil
}

// keep notes a connection, so that Close ends it.
func (f *FakeServer) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns == nil {
		_ = conn.Close() // nothing was said on it
		return false
	}
	f.conns[conn] = true
	return true
}

func (f *FakeServer) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close() // nobody minds
		f.mu.Lock()
		delete(f.conns, conn)
		f.mu.Unlock()
	}()
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasPrefix(line, "*") { // of a command, only its head is answered
			continue
		}
		if f.say(out) != nil || out.Flush() != nil {
			return
		}
	}
}

// Close ends it and waits.
func (f *FakeServer) Close() error {
	f.mu.Lock()
	for conn := range f.conns {
		_ = conn.Close() // its goroutine sees that
	}
	f.conns = nil
	f.mu.Unlock()
	err := f.listener.Close()
	f.running.Wait()
	return err
}

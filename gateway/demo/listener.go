package demo

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// acceptPause is the time after a connection that could not be accepted, such as with too many open files.
const acceptPause = 100 * time.Millisecond

// splitListener distributes the connections of one listener over several servers, in turn, like a load
// balancer.
type splitListener struct {
	ln     net.Listener
	log    zerolog.Logger
	shares []*shareListener
	done   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// newSplitListener starts the distributing goroutine; stop ends it.
func newSplitListener(ln net.Listener, n int, log zerolog.Logger) *splitListener {
	f := &splitListener{ln: ln, log: log, done: make(chan struct{})}
	for range n {
		f.shares = append(f.shares, &shareListener{owner: f, conns: make(chan net.Conn), closed: make(chan struct{})})
	}
	f.wg.Go(f.distribute)
	return f
}

// Addr is the address that clients use.
func (f *splitListener) Addr() net.Addr { return f.ln.Addr() }

// share returns the listener of one server.
func (f *splitListener) share(i int) net.Listener { return f.shares[i] }

func (f *splitListener) distribute() {
	for next := 0; ; next++ {
		conn, err := f.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return // the demo ends with its listener
		case err != nil:
			f.log.Error().Err(err).Msg("a connection could not be accepted")
			time.Sleep(acceptPause)
			continue
		}
		p := f.shares[next%len(f.shares)]
		select {
		case p.conns <- conn:
		case <-p.closed:
			_ = conn.Close() // its server has stopped
		case <-f.done:
			_ = conn.Close() // all servers have stopped
			return
		}
	}
}

func (f *splitListener) stop() {
	f.once.Do(func() {
		close(f.done)
		_ = f.ln.Close() // no connection waits in it
		f.wg.Wait()
	})
}

// shareListener is the listener of one server.
type shareListener struct {
	owner  *splitListener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept returns the next connection of this server.
func (s *shareListener) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-s.owner.done:
		return nil, net.ErrClosed
	}
}

// Close closes this server's listener; the others continue.
func (s *shareListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr is the address that clients use.
func (s *shareListener) Addr() net.Addr { return s.owner.Addr() }

package demo

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// How long to wait after a connection that could not be accepted: doubled each time up to the maximum, as net/http
// does.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// splitListener hands the connections of one listener to several servers, one after the other: a load balancer
// that copies nothing.
type splitListener struct {
	ln     net.Listener
	log    zerolog.Logger
	shares []*shareListener
	done   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// newSplitListener starts the loop that does it; stop ends it.
func newSplitListener(ln net.Listener, n int, log zerolog.Logger) *splitListener {
	f := &splitListener{ln: ln, log: log, done: make(chan struct{})}
	for range n {
		f.shares = append(f.shares, &shareListener{owner: f, conns: make(chan net.Conn), closed: make(chan struct{})})
	}
	f.wg.Go(f.distribute)
	return f
}

// Addr is the one address that clients see.
func (f *splitListener) Addr() net.Addr { return f.ln.Addr() }

// share is the listener of one server.
func (f *splitListener) share(i int) net.Listener { return f.shares[i] }

func (f *splitListener) distribute() {
	for next := 0; ; next++ {
		conn, err := f.accept()
		if err != nil {
			return // closed; a demo does not outlive its listener
		}
		p := f.shares[next%len(f.shares)]
		select {
		case p.conns <- conn:
		case <-p.closed:
			_ = conn.Close() // its server is gone
		case <-f.done:
			_ = conn.Close() // so are all
			return
		}
	}
}

// accept waits for the next connection. After an error that may pass, such as too many
// open files, it tries again; an error that it returns means that the listener is closed.
func (f *splitListener) accept() (net.Conn, error) {
	for pause := minAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		conn, err := f.ln.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		f.log.Error().Err(err).Dur("again_in", pause).Msg("a connection could not be accepted")
		select {
		case <-f.done:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

func (f *splitListener) stop() {
	f.once.Do(func() {
		close(f.done)
		_ = f.ln.Close() // nothing waits in it
		f.wg.Wait()
	})
}

// shareListener is one server's share.
type shareListener struct {
	owner  *splitListener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for the next connection for this server.
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

// Close ends this share; the others go on.
func (s *shareListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr is the one address that clients see.
func (s *shareListener) Addr() net.Addr { return s.owner.Addr() }

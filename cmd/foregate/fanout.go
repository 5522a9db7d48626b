package main

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// How long to wait after a connection that could not be accepted: doubled each
// time up to the most, as net/http does.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// fanOut deals the connections of one listener to several servers in turn: a
// load balancer in miniature, without a proxy's copying.
type fanOut struct {
	ln    net.Listener
	log   zerolog.Logger
	parts []*partListener
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

// newFanOut starts dealing; stop ends it.
func newFanOut(ln net.Listener, n int, log zerolog.Logger) *fanOut {
	f := &fanOut{ln: ln, log: log, done: make(chan struct{})}
	for range n {
		f.parts = append(f.parts, &partListener{owner: f, conns: make(chan net.Conn), closed: make(chan struct{})})
	}
	f.wg.Go(f.deal)
	return f
}

// Addr is the one address that clients see.
func (f *fanOut) Addr() net.Addr { return f.ln.Addr() }

func (f *fanOut) part(i int) net.Listener { return f.parts[i] }

func (f *fanOut) deal() {
	for turn := 0; ; turn++ {
		conn, err := f.accept()
		if err != nil {
			return // closed; a demo does not outlive its listener
		}
		p := f.parts[turn%len(f.parts)]
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

// accept waits for the next connection. Errors that pass, such as too many open
// files, are waited out; the error that it returns means that the end has come.
func (f *fanOut) accept() (net.Conn, error) {
	for pause := acceptPause; ; pause = min(2*pause, maxAcceptPause) {
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

func (f *fanOut) stop() {
	f.once.Do(func() {
		close(f.done)
		_ = f.ln.Close() // nothing waits in it
		f.wg.Wait()
	})
}

// partListener is one server's share.
type partListener struct {
	owner  *fanOut
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for the next connection dealt to this part.
func (p *partListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-p.owner.done:
		return nil, net.ErrClosed
	}
}

// Close ends this part; the others go on.
func (p *partListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is the address of the whole.
func (p *partListener) Addr() net.Addr { return p.owner.Addr() }

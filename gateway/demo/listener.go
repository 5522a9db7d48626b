package demo

import (
	"errors"
	"net"
	"sync"
)

// turnListener is one listener as one of several servers sees it: they take its connections in turn. The first server
// that closes it closes it for all; Accept of another one returns when that one closes it, too.
type turnListener struct {
	net.Listener
	turn, next chan struct{} // its turn to accept, and that of the next server
	closed     chan struct{}
	once       sync.Once
}

// inTurn returns a listener for each of n servers.
func inTurn(ln net.Listener, n int) []*turnListener {
	turns := make([]chan struct{}, n)
	for i := range turns {
		turns[i] = make(chan struct{}, 1)
	}
	turns[0] <- struct{}{}
	all := make([]*turnListener, n)
	for i := range all {
		all[i] = &turnListener{Listener: ln, turn: turns[i], next: turns[(i+1)%n], closed: make(chan struct{})}
	}
	return all
}

// Accept returns the next connection of this server.
func (l *turnListener) Accept() (net.Conn, error) {
	select {
	case <-l.turn:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	l.next <- struct{}{}
	if errors.Is(err, net.ErrClosed) {
		<-l.closed
	}
	return c, err
}

// Close closes the listener for all.
func (l *turnListener) Close() error {
	l.once.Do(func() { close(l.closed); _ = l.Listener.Close() }) // no connection waits in it
	return nil
}

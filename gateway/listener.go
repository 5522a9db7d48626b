package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
)

// listener is the public or the admin server with its socket. The socket is nil before Start and if the listener is
// disabled.
type listener struct {
	server *http.Server
	most   int                // open connections; further ones wait for one to be closed
	tls    func() *tls.Config // of a new connection; nil is plain HTTP
	ln     net.Listener
	addr   net.Addr
}

// open listens on addr, or uses ln if it is given.
func (l *listener) open(ctx context.Context, addr string, ln net.Listener) error {
	if ln == nil {
		var lc net.ListenConfig
		var err error
		if ln, err = lc.Listen(ctx, "tcp", addr); err != nil {
			return err
		}
	}
	l.addr = ln.Addr()
	l.ln = netutil.LimitListener(ln, l.most)
	if l.tls != nil {
		l.ln = secureListener{l.ln, l.tls}
	}
	return nil
}

// secureListener speaks TLS with the configuration that is in force when a connection is accepted. The server makes
// the handshake, within its ReadHeaderTimeout.
type secureListener struct {
	net.Listener
	config func() *tls.Config
}

// Accept implements net.Listener.
func (l secureListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(c, l.config()), nil
}

// Bounds of HTTP/2, which is spoken where TLS is on.
const (
	// uploadWindow is how many bytes of bodies a client may send on one connection before they are read. They are not
	// charged to Limits.Bodies yet. A body of 4 MiB takes 32 round trips.
	uploadWindow = 128 << 10
	// maxReadFrame is the largest frame, in bytes; each connection keeps a buffer of that size. It is the least that
	// RFC 9113 allows.
	maxReadFrame = 16 << 10
	// maxBlocked is how long a connection may take no bytes at all. [sink.write] bounds each answer.
	maxBlocked = 15 * time.Second
)

// maxAdminConns bounds the open connections of the admin listener, so that they leave files for all else. A browser opens six.
const maxAdminConns = 256

// countConns keeps the number of a server's open connections.
func countConns(s *http.Server, open prometheus.Gauge) {
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Inc()
		case http.StateClosed, http.StateHijacked:
			open.Dec()
		}
	}
}

// maxIdle is how long a connection waits for its next request: longer than a load balancer's time-out, so that the balancer closes
// first. Some have one for silent answers and for idle connections, so it is longer than the default of timeout.total, too.
const maxIdle = 620 * time.Second

// maxAdminIdle is that of the admin listener, which has few connections to give.
const maxAdminIdle = 20 * time.Second

// newListener makes an http.Server with the gateway's limits. It has no ReadTimeout and no WriteTimeout,
// because answers are streams; bodies and writes have deadlines of their own. secure is the configuration of
// TLS for a new connection, nil for plain HTTP.
func (g *Gateway) newListener(h http.Handler, secure func() *tls.Config) listener {
	d := listener{tls: secure, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       maxIdle,
		MaxHeaderBytes:    g.opts.Limits.Header,
		ErrorLog:          newServerLog(g.log),

		DisableGeneralOptionsHandler: true, // checkRequest handles OPTIONS *, like all others
	}}
	if secure != nil {
		d.server.TLSConfig = &tls.Config{NextProtos: []string{"h2", "http/1.1"}} // only tells the server that HTTP/2 is spoken
		d.server.HTTP2 = &http.HTTP2Config{
			MaxReadFrameSize: maxReadFrame, WriteByteTimeout: maxBlocked,
			MaxReceiveBufferPerConnection: uploadWindow, MaxReceiveBufferPerStream: uploadWindow,
		}
	}
	return d
}

func (g *Gateway) listen() error {
	if err := g.public.open(context.Background(), g.opts.Listen, g.opts.Listener); err != nil {
		return fmt.Errorf("public listener: %w", err)
	}
	if g.opts.Admin == "" {
		return nil
	}
	if err := g.admin.open(context.Background(), g.opts.Admin, nil); err != nil {
		_ = g.public.ln.Close() // nothing was served on it yet
		return fmt.Errorf("admin listener: %w", err)
	}
	at, ok := g.admin.addr.(*net.TCPAddr)
	g.guard.local = ok && at.IP.IsLoopback() // only this machine can reach it
	if !g.guard.local && g.guard.operators == nil {
		_ = g.public.ln.Close()
		_ = g.admin.ln.Close()
		return fmt.Errorf("admin listener: %v is not on loopback, so it needs operators' tokens", g.admin.addr)
	}
	return nil
}

func (g *Gateway) serve(d listener) {
	if err := d.server.Serve(d.ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) { // closed by another server that shares it
		g.log.Error().Err(err).Msg("listener failed")
		g.failed <- err
	}
}

// shutdown closes the listener, and each connection when its requests are answered. When ctx ends, cut tells the
// remaining requests to end, and the connections are closed shortly afterwards.
func (l *listener) shutdown(ctx context.Context, cut func()) {
	if l.server.Shutdown(ctx) == nil {
		return
	}
	cut()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer done()
	_ = l.server.Shutdown(last) // clients that can still be reached get the reason
	l.close()
}

// close closes the listener and its connections. Closing a connection with TLS sends a last record, and the server waits up
// to 5 s for each client that takes none, one after the other: nobody waits for these.
func (l *listener) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.server.Close() // errors of connections that are given up do not matter
	}()
	select {
	case <-closed:
	case <-time.After(lastWords):
	}
}

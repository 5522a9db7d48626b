package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/foregate/foregate/gateway/conns"
)

// listener is the public or the admin server with its connections and its socket. The socket is nil before
// Start and if the listener is disabled.
type listener struct {
	server *http.Server
	conns  *conns.Table
	tls    func() *tls.Config // of a new connection; nil is plain HTTP
	ln     net.Listener
	addr   net.Addr
}

// open listens on addr, or uses ln if it is given.
func (d *listener) open(ctx context.Context, addr string, ln net.Listener) error {
	if ln == nil {
		var lc net.ListenConfig
		var err error
		if ln, err = lc.Listen(ctx, "tcp", addr); err != nil {
			return err
		}
	}
	d.ln, d.addr = d.conns.Listen(ln), ln.Addr()
	if d.tls != nil {
		d.ln = secureListener{d.ln, d.tls}
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
	// maxStreams is the largest number of requests that one connection carries at once. RFC 9113 wants at least 100,
	// so that clients seldom need a second connection.
	maxStreams = 250
	// uploadWindow is how many bytes of bodies a client may send on one connection before they are read. They are not
	// charged to Limits.Bodies yet, so they are part of what a connection may cost (see app's connLimits). A body of
	// 4 MiB takes 32 round trips.
	uploadWindow = 128 << 10
	// maxReadFrame is the largest frame, in bytes; each connection keeps a buffer of that size. It is the least that
	// RFC 9113 allows.
	maxReadFrame = 16 << 10
	// maxBlocked is how long a connection may take no bytes at all. [writeGuard] bounds each answer, and usually sooner.
	maxBlocked = time.Minute
)

// http2Config bounds what one connection with HTTP/2 may use. It gets at most a quarter of the places for requests.
func http2Config(places int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: max(1, min(maxStreams, places/4)), MaxReadFrameSize: maxReadFrame,
		MaxReceiveBufferPerConnection: uploadWindow, MaxReceiveBufferPerStream: uploadWindow, WriteByteTimeout: maxBlocked,
	}
}

// maxAdminConns bounds the open connections of operators, probes and scrapes. They are separate from the
// clients' connections. One address gets half of them, so that probes always get one.
const maxAdminConns = 64

// newListener makes an http.Server with the gateway's limits. It has no ReadTimeout and no WriteTimeout,
// because answers are streams; body reads and all writes have rolling deadlines instead. secure is the configuration of
// TLS for a new connection, nil for plain HTTP.
func (g *Gateway) newListener(h http.Handler, secure func() *tls.Config, o conns.Options) listener {
	o.MaxIdle = 75 * time.Second // longer than a load balancer's 60 s, so that the balancer closes first
	o.Registerer = g.opts.Registerer
	d := listener{conns: conns.New(o), tls: secure, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		MaxHeaderBytes:    g.opts.Limits.Header,
		ErrorLog:          newServerLog(g.log),

		DisableGeneralOptionsHandler: true, // checkRequest handles OPTIONS *, like all others
	}}
	if secure != nil {
		d.server.TLSConfig = &tls.Config{NextProtos: []string{"h2", "http/1.1"}} // only tells the server that HTTP/2 is spoken
		d.server.HTTP2 = http2Config(min(o.Max, g.opts.Limits.InFlight))
		d.server.Handler = g.flushed(h)
	}
	d.conns.Guard(d.server)
	return d
}

func (g *Gateway) listen() error {
	if err := g.public.open(g.tasksCtx, g.opts.Listen, g.opts.Listener); err != nil {
		return fmt.Errorf("public listener: %w", err)
	}
	if g.opts.Admin == "" {
		return nil
	}
	if err := g.admin.open(g.tasksCtx, g.opts.Admin, nil); err != nil {
		_ = g.public.ln.Close() // nothing was served on it yet
		return fmt.Errorf("admin listener: %w", err)
	}
	g.guard.local = onLoopback(g.admin.addr)
	if !g.guard.local && g.guard.operators == nil {
		_ = g.public.ln.Close()
		_ = g.admin.ln.Close()
		return fmt.Errorf("admin listener: %v is not on loopback, so it needs operators' tokens", g.admin.addr)
	}
	return nil
}

func (g *Gateway) serve(d listener) {
	if err := d.server.Serve(d.ln); !errors.Is(err, http.ErrServerClosed) {
		g.log.Error().Err(err).Msg("listener failed")
		g.failed <- err
	}
}

// flushed sends the rest of an answer over HTTP/2 before its handler ends, within timeout.write. Otherwise the server sends
// it afterwards, for as long as a client holds it up, and the handler's connection counts it as answered.
func (g *Gateway) flushed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.ProtoMajor < 2 {
			return
		}
		rc := http.NewResponseController(w)
		if rc.SetWriteDeadline(time.Now().Add(g.timeouts("").Write)) == nil {
			_ = rc.Flush() // a closed stream has no reader
		}
	})
}

// shutdown closes the listener, and each connection when its requests are answered. When ctx ends, cut tells the
// remaining requests to end, and the connections are closed shortly afterwards.
func (d *listener) shutdown(ctx context.Context, cut func()) {
	// Closing a connection with TLS sends a last record, and the server waits up to 5 s for each client that takes none,
	// one after the other.
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, d.conns.Abort) })
	defer stop()
	if d.server.Shutdown(ctx) == nil {
		return
	}
	cut()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer done()
	_ = d.server.Shutdown(last) // clients that can still be reached get the reason
	d.conns.Abort()
	_ = d.server.Close() // of closed connections
}

package pair

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// cutter is a proxy on the loopback in front of an engine. While it is armed it breaks two of five streams off, each at another
// place, as an engine does that dies. Never are half of those that have ended broken off if they come one after the other: the
// engine's circuit breaker would open.
type cutter struct {
	url    string
	armed  atomic.Bool
	seen   atomic.Int64 // streams while it is armed
	server *http.Server
	ended  chan struct{} // closed when the server has ended

	first, last int64 // events after which a stream is broken off
}

const (
	headerTimeout = 10 * time.Second // for the head of a request; it is this process' own
	cutStep       = 7                // events between two places where streams are broken off
)

// startCutter starts a proxy in front of an engine. Streams are broken off after first … last events.
func startCutter(ctx context.Context, engine string, first, last int) (*cutter, error) {
	to, err := url.Parse(engine)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cutter{url: "http://" + l.Addr().String(), ended: make(chan struct{}), first: int64(first), last: int64(last)}
	silent := log.New(io.Discard, "", 0) // it would tell of every stream that was broken off
	c.server = &http.Server{ReadHeaderTimeout: headerTimeout, ErrorLog: silent, Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: c.modify, ErrorLog: silent,
	}}
	go func() {
		defer close(c.ended)
		_ = c.server.Serve(l) // it ends with stop
	}()
	return c, nil
}

// stop ends the proxy and its connections.
func (c *cutter) stop() {
	_ = c.server.Close() // only connections are lost
	<-c.ended
}

// modify has a stream broken off, if it is its turn.
func (c *cutter) modify(r *http.Response) error {
	if !c.armed.Load() || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	if n := c.seen.Add(1); n%5 == 3 || n%5 == 0 {
		r.Body = &cutBody{ReadCloser: r.Body, left: int(c.first + n*cutStep%(c.last-c.first+1))}
	}
	return nil
}

// cutBody is a stream that ends with an error after some events. An event ends with an empty line.
type cutBody struct {
	io.ReadCloser
	left  int  // events
	ended bool // the last byte ended a line
}

// Read implements io.Reader.
func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			continue
		}
		if c == '\n' && b.ended {
			if b.left--; b.left == 0 {
				return i + 1, nil
			}
		}
		b.ended = c == '\n'
	}
	return n, err
}

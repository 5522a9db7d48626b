// Package http1 is an HTTP/1.1 client for POST requests to engines. Start at [Transport.Do]. One goroutine, the caller's,
// writes a request and reads its response: there is no goroutine per connection.
//
// Responses are foreign bytes. Their framing is checked at least as strictly as by net/http's client, everything read of
// them is bounded, and whatever is not plainly correct ends the connection. A connection is reused only if its last response
// ended exactly where its framing said, and if nothing came after it.
//
// Not supported, and refused where it may occur: proxies, redirects, cookies, compression, upgrades, pipelining, HTTP/2.
package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Bounds of a response.
const (
	maxHead  = 64 << 10 // bytes of its head, those of the interim responses before it included
	maxTrail = 8 << 10  // bytes of the trailer section
)

var (
	// ErrMalformed is returned for a response that is not HTTP/1.1 as it must be.
	ErrMalformed = errors.New("malformed HTTP response")
	// ErrTimeout is returned if a wait took too long: [Request.Wait], [Response.SetWait].
	ErrTimeout = errors.New("no bytes of an HTTP response in time")
	// ErrClosed is returned by reads of a closed response, and by a closed [Transport].
	ErrClosed = errors.New("closed")
)

// Options configure a Transport.
type Options struct {
	// Dial opens a TCP connection, DialTLS a connection with TLS, to HOST:PORT. They enforce bounds of their own.
	// nil is a [net.Dialer], and crypto/tls with the system's certificates.
	Dial, DialTLS func(ctx context.Context, network, addr string) (net.Conn, error)

	MaxConns    int           // per server, in use and idle; 0 is 4096
	MaxIdle     int           // per server; 0 is 512
	IdleTimeout time.Duration // after which an idle connection is closed; 0 is 4 s
}

// Request is one POST request.
type Request struct {
	Base   string      // URL of the server: http:// or https://, HOST[:PORT], and a path without a slash at its end
	Path   string      // is appended to Base; begins with a slash
	Header http.Header // header lines, canonical names. Those that frame a message are ignored: Content-Length and such
	Fields []Field     // further header lines; they replace those of the same name in Header
	Body   []byte      // is read until the response is closed

	// Wait bounds the time until the whole response is read, or until [Response.SetWait] is called. 0 is no bound.
	Wait time.Duration
}

// Field is a header line.
type Field struct{ Name, Value string }

// Response is a response. [Transport.Do] fills one in. It is used by one goroutine.
type Response struct {
	Status        int   // 200 … 999; interim responses are skipped
	ContentLength int64 // −1 is unknown

	// Header lines; "" is none. Of several with one name it is the first.
	ContentType, ContentEncoding, RetryAfter string

	// Reused says that the connection had served an earlier request. It is also set if Do returns an error.
	Reused bool

	// Body is never nil after Do returned without an error.
	Body Body
	body body // of a Transport
}

// Body is the body of a response. It is used by one goroutine. To end it from another, end the context of the request.
type Body interface {
	// Read returns what has come of the body, at least a byte of it if p has room. The error is io.EOF at the body's end, also
	// together with the last bytes; io.ErrUnexpectedEOF if the connection ends before that; [ErrTimeout]; one that matches
	// [ErrMalformed]; or one of the connection.
	Read(p []byte) (int, error)
	// SetWait bounds the time of the following reads together, counted from the beginning of the first. 0 is no bound.
	SetWait(d time.Duration)
	// Close frees the connection if the body was read to its end, and closes it otherwise, which tells the server to stop. It is
	// idempotent.
	Close()
}

// Transport sends requests over connections that it keeps. It is safe for concurrent use.
type Transport struct{ pools pools }

// New returns a Transport.
func New(o Options) *Transport {
	t := &Transport{pools{options: o.complete(), byBase: map[string]*pool{}}}
	return t
}

// complete sets the defaults.
func (o Options) complete() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.DialTLS == nil {
		o.DialTLS = new(tls.Dialer).DialContext
	}
	if o.MaxConns == 0 {
		o.MaxConns = 4096
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = 512
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 4 * time.Second
	}
	return o
}

// maxTries bounds how often a request is sent over idle connections that turn out to be closed.
const maxTries = 3

// Do sends a request and reads the head of its response. The end of ctx closes the connection at once, also while the body is
// read. After an error nothing needs to be closed. A request is sent again by itself only if its connection turned out to be
// closed before a byte of it was written.
func (t *Transport) Do(ctx context.Context, req *Request, resp *Response) error {
	*resp = Response{}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now, until := time.Now(), time.Time{}
	if req.Wait > 0 {
		until = now.Add(req.Wait)
	}
	for try := 1; ; try++ {
		c, err := t.pools.get(ctx, req.Base, until)
		if err != nil {
			return err
		}
		resp.Reused = c.used
		written, err := t.exchange(ctx, c, &exchange{req, resp, now, until})
		if err == nil {
			return nil
		}
		if again := resp.Reused && written == 0 && try < maxTries; !again || ctx.Err() != nil || errors.Is(err, ErrTimeout) {
			return err
		}
	}
}

// exchange is a request on its way.
type exchange struct {
	req        *Request
	resp       *Response
	now, until time.Time // when it began, and its deadline
}

// exchange sends a request on a connection, and reads the head of the response. It reports how many bytes were written.
func (t *Transport) exchange(ctx context.Context, c *conn, x *exchange) (written int64, err error) {
	begun := false
	stop := context.AfterFunc(ctx, c.abort)
	defer func() {
		if !begun { // also after a panic
			stop()
			t.pools.discard(c)
		}
	}()
	c.head, c.heads = head{}, 0
	early, written, err := c.send(&c.pool.server, x.req, x.now, x.until)
	if err == nil && !early {
		err = c.readHead(x.until)
	}
	if err != nil {
		return written, err
	}
	begun = true
	h := &c.head
	r := x.resp
	r.Status, r.ContentLength = h.status, h.length
	r.ContentType, r.ContentEncoding, r.RetryAfter = h.contentType, h.contentEncoding, h.retryAfter
	r.body = body{pools: &t.pools, conn: c, stop: stop, left: h.length, until: x.until, reusable: !early && !h.closes}
	switch {
	case h.coded:
		r.body.framing = byChunks
	case h.length == unknown:
		r.body.framing = byClose
	}
	if h.length == 0 {
		r.body.end(io.EOF)
	}
	r.Body = &r.body
	return written, nil
}

// CloseIdle closes the connections that are idle.
func (t *Transport) CloseIdle() { t.pools.closeIdle(time.Now()) }

// Close closes the idle connections now, those in use when their responses are closed, and refuses further requests.
func (t *Transport) Close() {
	t.pools.mu.Lock()
	t.pools.closed = true
	t.pools.mu.Unlock()
	t.CloseIdle()
}

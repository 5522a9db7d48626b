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
	"errors"
	"io"
	"time"
)

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

// Transport sends requests over connections that it keeps. It is safe for concurrent use.
type Transport struct{ pools pools }

// New returns a Transport.
func New(o Options) *Transport {
	t := &Transport{pools{options: o.complete(), byKey: map[key]*pool{}}}
	return t
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
		c, err := t.pools.get(ctx, key{req.Base, req.identity().TLS}, until)
		if err != nil {
			return err
		}
		resp.Reused = c.used
		if !c.used { // to open it may have taken a while
			now = time.Now()
		}
		written, err := t.exchange(ctx, c, &exchange{req, now, until}, resp)
		if err == nil {
			return nil
		}
		again := resp.Reused && written == 0 && try < maxTries
		if !again || ctx.Err() != nil || errors.Is(err, ErrTimeout) || errors.Is(err, ErrRequest) {
			return err
		}
	}
}

// exchange sends a request on a connection, and reads the head of the response. It reports how many bytes were written.
func (t *Transport) exchange(ctx context.Context, c *pooledConn, x *exchange, resp *Response) (written int64, err error) {
	begun := false
	stop := context.AfterFunc(ctx, c.abort)
	defer func() {
		if !begun { // also after a panic
			stop()
			t.pools.discard(c)
		}
	}()
	c.head, c.heads = head{}, 0
	written, err = c.send(ctx, &c.pool.server, x)
	if err == nil {
		err = c.readHead(x.until)
	}
	if err != nil {
		return written, err
	}
	begun = true
	h := &c.head
	resp.Status, resp.ContentLength = h.status, h.length
	resp.ContentType, resp.ContentEncoding, resp.RetryAfter = h.contentType, h.contentEncoding, h.retryAfter
	resp.body = body{pools: &t.pools, conn: c, stop: stop, left: h.length, until: x.until, reusable: !h.closes}
	switch {
	case h.coded:
		resp.body.framing = byChunks
	case h.length == unknown:
		resp.body.framing = byClose
	}
	if h.length == 0 {
		resp.body.end(io.EOF)
	}
	resp.Body = &resp.body
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

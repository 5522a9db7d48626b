package http1

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

const (
	inlineBody = 2 << 10                // bytes of a body that is copied behind its head
	largeBody  = 16 << 10               // bytes of a body that may not fit in the socket's buffer
	largeSlice = 20 * time.Millisecond  // for writing a large body before the response is looked for
	smallSlice = time.Second            // the same for a small one, which hardly ever waits
	minSlice   = 500 * time.Millisecond // a deadline of a small one that is so far away is not moved
)

// send writes a request. It returns before all of it is written if the server does not read it: then the response may come
// early, and a goroutine writes the rest. n is how many bytes were written until then.
func (c *conn) send(ctx context.Context, s *server, x *exchange) (n int64, err error) {
	c.out = outgoing{array: buffers.Get().(*[bufferSize]byte), until: x.until}
	defer func() {
		if c.out.beside == nil {
			c.sent()
		}
	}()
	b, err := s.appendHead(c.out.array[:0], x.req)
	if err != nil {
		return 0, err
	}
	size := x.req.size()
	if size <= min(inlineBody, cap(b)-len(b)) {
		b = append(b, x.req.Body...)
		for _, p := range x.req.More {
			b = append(b, p...)
		}
		c.out.rest = append(c.out.parts[:0], b)
	} else {
		c.out.rest = append(append(c.out.parts[:0], b, x.req.Body), x.req.More...)
	}
	if c.tls && size > largeBody { // a write that was interrupted would end the TLS connection
		c.sendBeside(ctx)
		return 1, nil
	}
	c.boundWrite(size > largeBody, x.now)
	n, err = c.write()
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.tls:
		c.sendBeside(ctx)
		return n, nil
	case n > 0 && c.look(): // the server may have answered, and closed the connection
		c.out.broken = true
		return n, nil
	}
	return n, err
}

// sendBeside writes the rest of the request on a goroutine. It ends at the latest when the connection is closed.
func (c *conn) sendBeside(ctx context.Context) {
	c.out.beside = make(chan struct{})
	go func() {
		defer close(c.out.beside)
		defer panics.Recover(ctx)
		c.out.broken = true // also after a panic
		c.setWriteBy(c.out.until)
		_, err := c.write()
		c.out.broken = err != nil
	}()
}

// isSent reports whether the whole request was written.
func (c *conn) isSent() bool {
	if c.out.beside != nil {
		select {
		case <-c.out.beside:
			c.sent()
		default:
			return false
		}
	}
	return !c.out.broken
}

// join waits until nothing is written any more, after the connection was closed.
func (c *conn) join() {
	if c.out.beside != nil {
		<-c.out.beside
		c.sent()
	}
}

// sent forgets the request.
func (c *conn) sent() {
	buffers.Put(c.out.array)
	c.out = outgoing{broken: c.out.broken}
}

// write writes the rest of the request.
func (c *conn) write() (int64, error) {
	if len(c.out.rest) == 1 {
		n, err := c.rwc.Write(c.out.rest[0])
		c.out.rest[0] = c.out.rest[0][n:]
		return int64(n), err
	}
	return c.out.rest.WriteTo(c.rwc)
}

// boundWrite sets the deadline of a write that begins now, if the present one is not good enough.
func (c *conn) boundWrite(large bool, now time.Time) {
	until, slice := c.out.until, smallSlice
	switch {
	case c.tls:
		c.setWriteBy(until)
		return
	case large:
		slice = largeSlice
	case c.writeBy.Sub(now) > minSlice && (until.IsZero() || !c.writeBy.After(until)):
		return
	}
	by := now.Add(slice)
	if !until.IsZero() && until.Before(by) {
		by = until
	}
	c.setWriteBy(by)
}

func (c *conn) setWriteBy(t time.Time) {
	c.writeBy = t
	_ = c.rwc.SetWriteDeadline(t) // if it fails, so does the write
}

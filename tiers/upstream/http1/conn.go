package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	bufferSize = 4 << 10                // of a connection, while it writes a request or has bytes that are not read
	inlineBody = 2 << 10                // bytes of a body that is copied behind its head
	largeBody  = 16 << 10               // bytes of a body that may not fit in the socket's buffer
	writeSlice = 20 * time.Millisecond  // after which a large write looks for an early response
	smallSlice = time.Second            // the same for a small one, which hardly ever waits
	minSlice   = 500 * time.Millisecond // a write deadline that is so far away is not moved
)

// buffers are shared by all connections: one that waits for a stream's next bytes holds none. Without the pool a request
// allocates two (BenchmarkExchange). A buffer is only reachable from its connection, which puts it back when it has no bytes.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// conn is one connection. While a request uses it, it belongs to that request's goroutine; abort alone may be called by
// others.
type conn struct {
	pool *pool
	rwc  net.Conn // TCP, or TLS over it
	tcp  net.Conn // beneath
	tls  bool
	used bool // it has served a request

	idleSince time.Time
	abort     func() // closes tcp

	readBy, writeBy time.Time // the deadlines that are set; zero is none

	peeker syscall.RawConn // nil if the connection cannot be looked at
	peek   func(fd uintptr) bool
	peeked error // what peek found: nil if there is a byte
	one    [1]byte

	array      *[bufferSize]byte // from buffers
	buf        []byte            // array, or a larger one for a long head
	start, end int               // unread bytes are buf[start:end]
	heads      int               // bytes of interim heads that were read
	head       head
	vector     net.Buffers // the rest of a request that is being written
	vectors    [2][]byte   // its memory
}

func newConn(p *pool, rwc net.Conn) *conn {
	c := &conn{pool: p, rwc: rwc, tcp: rwc}
	if t, ok := rwc.(interface{ NetConn() net.Conn }); ok {
		c.tcp, c.tls = t.NetConn(), true
	}
	c.abort = func() { _ = c.tcp.Close() }
	if s, ok := c.tcp.(syscall.Conn); ok {
		c.peeker, _ = s.SyscallConn() // nil with an error
	}
	c.peek = func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), c.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if n == 0 && err == nil {
			err = io.EOF
		}
		c.peeked = err
		return true // do not wait
	}
	return c
}

// look reports whether a read of the socket would not wait, because there are bytes, the end of the stream or an error.
func (c *conn) look() (readable bool) {
	if c.peeker == nil {
		return false
	}
	err := c.peeker.Read(c.peek)
	if errors.Is(err, os.ErrDeadlineExceeded) { // of an earlier read
		c.setReadBy(time.Time{})
		err = c.peeker.Read(c.peek)
	}
	return err != nil || (c.peeked != syscall.EAGAIN && c.peeked != syscall.EINTR)
}

// alive reports whether an idle connection can be used: nothing came since its last response, and it is not closed.
func (c *conn) alive() bool {
	if c.look() {
		return false
	}
	if c.tls { // it may hold bytes that were read from the socket
		c.setReadBy(time.Unix(1, 0))
		n, err := c.rwc.Read(c.one[:])
		c.setReadBy(time.Time{})
		return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
	}
	return true
}

func (c *conn) setReadBy(t time.Time) {
	c.readBy = t
	_ = c.rwc.SetReadDeadline(t) // if it fails, so does the read
}

// read reads from the connection, and waits until then; a zero time is no bound. The deadline of the socket is not moved
// for each read: if an earlier one passes, it is moved then.
func (c *conn) read(p []byte, until time.Time) (int, error) {
	if !until.IsZero() && (c.readBy.IsZero() || c.readBy.After(until)) {
		c.setReadBy(until)
	}
	for {
		n, err := c.rwc.Read(p)
		if n > 0 {
			return n, nil // an error comes again
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return 0, ErrTimeout
		}
		c.setReadBy(until)
	}
}

// fill reads into the buffer, which grows up to a whole head.
func (c *conn) fill(until time.Time) error {
	switch {
	case c.buf == nil:
		c.array = buffers.Get().(*[bufferSize]byte)
		c.buf = c.array[:]
	case c.end < len(c.buf):
	case c.start > 0:
		c.end = copy(c.buf, c.buf[c.start:c.end])
		c.start = 0
	default:
		longer := make([]byte, 2*len(c.buf))
		copy(longer, c.buf)
		end := c.end
		c.free()
		c.buf, c.end = longer, end
	}
	n, err := c.read(c.buf[c.end:], until)
	c.end += n
	return err
}

// free gives the buffer back. Its bytes are lost.
func (c *conn) free() {
	if c.array != nil {
		buffers.Put(c.array)
	}
	c.array, c.buf, c.start, c.end = nil, nil, 0, 0
}

// take moves bytes from the buffer to p, and frees it when it is empty.
func (c *conn) take(p []byte) int {
	n := copy(p, c.buf[c.start:c.end])
	if c.start += n; c.start == c.end {
		c.free()
	}
	return n
}

// readHead reads the head of the final response into c.head.
func (c *conn) readHead(until time.Time) error {
	for {
		if final, err := c.parseHead(); final || err != nil {
			return err
		}
		if err := c.fill(until); err != nil {
			if err == io.EOF && c.heads+c.end > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// parseHead parses the heads in the buffer. It reports whether that of the final response is complete.
func (c *conn) parseHead() (final bool, err error) {
	for {
		complete, err := c.head.parse(c.buf[c.start:c.end])
		if err != nil {
			return false, err
		}
		if c.heads+c.head.scanned > maxHead {
			return false, malformed("a head of more than %d bytes", maxHead)
		}
		if !complete {
			return false, nil
		}
		c.start += c.head.line
		if !c.head.interim() {
			if c.start == c.end {
				c.free()
			}
			return true, nil
		}
		c.heads += c.head.line
		c.head = head{}
	}
}

// send writes a request. It reports whether the final response came before the request was written; its rest is never
// written then. n is how many bytes were written.
func (c *conn) send(s *server, r *Request, now, until time.Time) (early bool, n int64, err error) {
	array := buffers.Get().(*[bufferSize]byte)
	defer func() {
		c.vector, c.vectors = nil, [2][]byte{}
		if c.array == nil && err == nil { // for the response
			c.array, c.buf = array, array[:]
			return
		}
		buffers.Put(array)
	}()
	b, err := s.appendHead(array[:0], r)
	if err != nil {
		return false, 0, err
	}
	if len(r.Body) <= min(inlineBody, cap(b)-len(b)) {
		b = append(b, r.Body...)
		c.vectors[0] = b
		c.vector = c.vectors[:1]
	} else {
		c.vectors = [2][]byte{b, r.Body}
		c.vector = c.vectors[:]
	}
	return c.write(len(r.Body) > largeBody, now, until)
}

// write writes c.vector.
func (c *conn) write(large bool, now, until time.Time) (early bool, n int64, err error) {
	c.boundWrite(large, now, until)
	for {
		m, err := c.writeOnce()
		n += m
		if err == nil {
			return false, n, nil
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if late && c.tls {
			return false, n, ErrTimeout
		}
		// The server may have answered and read no further.
		for n > 0 && c.look() {
			final, readErr := c.readNow(until)
			if final || readErr != nil {
				return final, n, readErr
			}
		}
		if !late {
			return false, n, err
		}
		now = time.Now()
		if !until.IsZero() && !now.Before(until) {
			return false, n, ErrTimeout
		}
		c.writeBy = time.Time{}
		c.boundWrite(large, now, until)
	}
}

// writeOnce writes what it can.
func (c *conn) writeOnce() (int64, error) {
	if len(c.vector) == 1 {
		n, err := c.rwc.Write(c.vector[0])
		c.vector[0] = c.vector[0][n:]
		return int64(n), err
	}
	return c.vector.WriteTo(c.rwc)
}

// readNow reads bytes that are there, and reports whether the head of the final response is complete.
func (c *conn) readNow(until time.Time) (final bool, err error) {
	if err := c.fill(until); err != nil {
		return false, err
	}
	return c.parseHead()
}

// boundWrite sets the deadline of a write that begins now, if the present one is not good enough.
func (c *conn) boundWrite(large bool, now, until time.Time) {
	slice := smallSlice
	switch {
	case c.tls: // a write that was interrupted ends a TLS connection
		c.setWriteBy(until)
		return
	case large:
		slice = writeSlice
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

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
	bufferSize = 4 << 10 // of a connection, while it writes a request or has bytes that are not read
)

// buffers are shared by all connections: one that waits for a stream's next bytes holds none. Without the pool a request
// allocates two (BenchmarkExchange). A buffer is only reachable from its connection, which puts it back when it has no bytes.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// conn is one connection. While a request uses it, it belongs to that request's goroutine; abort alone may be called by
// others.
type conn struct {
	rwc net.Conn // TCP, or TLS over it
	tcp net.Conn // beneath
	tls bool

	abort func() // closes tcp

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
	out        outgoing
}

// init sets the connection beneath.
func (c *conn) init(rwc net.Conn) {
	c.rwc, c.tcp = rwc, rwc
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

// alive reports whether an idle connection can be used: nothing came since its last response, and it is not closed. One that
// cannot be looked at is not used again.
func (c *conn) alive() bool {
	if c.peeker == nil || c.look() {
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

// outgoing is a request that is being written.
type outgoing struct {
	array  *[bufferSize]byte // has the head
	parts  [8][]byte         // memory of rest
	rest   net.Buffers       // to be written
	until  time.Time
	broken bool // it was not written to its end, and will not be

	// beside is closed when the rest was written by a goroutine of its own, or cannot be; nil if there is none.
	beside chan struct{}
}

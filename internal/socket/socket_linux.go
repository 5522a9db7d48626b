package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// conn is a TCP connection. Deadlines, closing and waiting are the net package's.
type conn struct {
	*net.TCPConn
	raw         syscall.RawConn
	read, write transfer
}

// transfer is one direction of a connection. One call uses it at a time.
type transfer struct {
	mu    sync.Mutex
	calls uint          // system calls so far
	p     []byte        // memory of the call; nil between calls
	n     int           // bytes that were moved
	errno syscall.Errno // why the call ended early
	try   func(uintptr) bool
}

func wrap(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	w := &conn{TCPConn: tcp, raw: raw}
	w.read.try, w.write.try = w.read.readOnce, w.write.writeAll // made once: they would be allocated for each call
	return w
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.TCPConn.Read(p)
	}
	t := &c.read
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.run(c.raw.Read, p)
	switch {
	case err != nil:
		return 0, c.error("read", err)
	case t.errno != 0:
		return 0, c.error("read", os.NewSyscallError("read", t.errno))
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return c.TCPConn.Write(p)
	}
	t := &c.write
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.run(c.raw.Write, p)
	if err == nil && t.errno != 0 {
		err = os.NewSyscallError("write", t.errno)
	}
	if err != nil {
		return t.n, c.error("write", err)
	}
	return t.n, nil
}

// run moves bytes of p when the socket is ready. The caller holds t.mu.
func (t *transfer) run(whenReady func(func(uintptr) bool) error, p []byte) error {
	t.p, t.n, t.errno = p, 0, 0
	err := whenReady(t.try)
	t.p = nil
	return err
}

// readOnce reads what is there. It reports false if nothing is.
func (t *transfer) readOnce(fd uintptr) bool {
	n, errno := t.call(syscall.SYS_READ, fd, t.p)
	if errno == syscall.EAGAIN {
		return false
	}
	t.n, t.errno = n, errno
	return true
}

// writeAll writes until all is written, and reports false if the rest must wait.
func (t *transfer) writeAll(fd uintptr) bool {
	for t.n < len(t.p) {
		n, errno := t.call(syscall.SYS_WRITE, fd, t.p[t.n:])
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			t.errno = errno
			return true
		}
		t.n += n
	}
	return true
}

// error is the error that the net package returns for this one.
func (c *conn) error(op string, err error) error {
	if own, ok := errors.AsType[*net.OpError](err); ok {
		own.Op = op
		return own
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

var _ interface {
	net.Conn
	syscall.Conn
	io.ReaderFrom
	io.WriterTo
	CloseWrite() error
	SetLinger(seconds int) error
} = (*conn)(nil)

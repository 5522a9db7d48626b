package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// scriptedConn is a connection that has these bytes to read, in pieces of this size, and takes all that is written.
type scriptedConn struct {
	rest   []byte
	step   int
	closed bool
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.step)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (*scriptedConn) Write(p []byte) (int, error) { return len(p), nil }

func (c *scriptedConn) Close() error {
	c.closed = true
	return nil
}

func (*scriptedConn) LocalAddr() net.Addr              { return nil }
func (*scriptedConn) RemoteAddr() net.Addr             { return nil }
func (*scriptedConn) SetDeadline(time.Time) error      { return nil }
func (*scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (*scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// answerOf is what a Transport makes of the bytes that a server answers.
type answerOf struct {
	status int
	length int64
	body   string
	kept   bool
	failed string
}

func read(t *testing.T, silent syscall.RawConn, raw []byte, step, buffer int) (a answerOf, unread int) {
	t.Helper()
	conn := &scriptedConn{rest: raw, step: step}
	tr := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return looked{conn, silent}, nil }})
	defer tr.Close()
	var resp Response
	err := tr.Do(t.Context(), &Request{Base: "http://x", Path: "/"}, &resp)
	if err == nil {
		a.status, a.length = resp.Status, resp.ContentLength
		p := make([]byte, buffer)
		for err == nil {
			var n int
			n, err = resp.Body.Read(p)
			a.body += string(p[:n])
			if n == 0 && err == nil {
				t.Fatal("a read of nothing")
			}
		}
		resp.Body.Close()
	}
	switch {
	case err == io.EOF && resp.Body != nil:
		a.failed = ""
	case errors.Is(err, ErrMalformed):
		a.failed = "malformed"
		a.body = "" // how much of it came depends on the reads
	default:
		a.failed = err.Error()
	}
	a.kept = !conn.closed
	if n := tr.pools.byKey[key{base: "http://x"}]; (n != nil) != a.kept {
		t.Fatalf("%+v, and the pool is %+v", a, n)
	}
	return a, len(conn.rest)
}

// FuzzReadResponse: what a response means does not depend on how its bytes come, nor on how its reader reads; and the
// connection is kept only if all that it sent belongs to the response.
func FuzzReadResponse(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello more",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nall the rest",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nshort",
	} {
		f.Add([]byte(raw), uint8(1), uint8(3))
	}
	silent := silentSocket(f)
	f.Fuzz(func(t *testing.T, raw []byte, step, buffer uint8) {
		if len(raw) > 8<<10 {
			return
		}
		whole, unread := read(t, silent, bytes.Clone(raw), len(raw)+1, 64<<10)
		pieces, _ := read(t, silent, bytes.Clone(raw), int(step)+1, int(buffer)+1)
		if whole.kept != pieces.kept && unread == 0 && whole.failed == "" && pieces.failed == "" && pieces.kept {
			pieces.kept = whole.kept // bytes behind the end that had not been read were not seen: the pool looks for them
		}
		if whole != pieces {
			t.Errorf("in one piece %+v, by %d into %d %+v", whole, int(step)+1, int(buffer)+1, pieces)
		}
		if whole.kept && (whole.failed != "" || unread > 0 && len(raw) < bufferSize) {
			t.Errorf("kept: %+v, with %d bytes unread", whole, unread)
		}
	})
}

package cost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// The mock engine and the clients speak HTTP/1.1 on bare sockets, only as much of it as this benchmark needs: they share one
// core and must not be what limits the load.

// wireBuffer holds any header line, and a large part of an answer.
const wireBuffer = 16 << 10

// marker ends the text of every token. Nothing else that the mock sends contains it, so counting it shows whether a token was
// lost or doubled on the way.
const marker = '^'

// message is the head of a request or an answer.
type message struct {
	first   []byte // line, valid until the next message
	length  int    // Content-Length, 0 when absent
	chunked bool
}

// wire reads the messages of one connection.
type wire struct {
	in    *bufio.Reader
	first []byte
}

func newWire(c net.Conn) *wire { return &wire{in: bufio.NewReaderSize(c, wireBuffer)} }

// head reads a message up to its body.
func (w *wire) head() (message, error) {
	var m message
	w.first = w.first[:0]
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return m, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			m.first = w.first
			return m, nil
		case len(w.first) == 0:
			w.first = append(w.first, line...)
		case named(line, "content-length"):
			m.length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("content-length:"):])))
			if err != nil {
				return m, err
			}
		case named(line, "transfer-encoding"):
			m.chunked = true
		}
	}
}

// named reports whether a header line has the lower-case name.
func named(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name))
}

// digest is what is kept of a body: enough to tell a whole answer from a broken one.
type digest struct {
	size, marks int
	tail        [16]byte
}

func (d *digest) add(b []byte) {
	d.size += len(b)
	d.marks += bytes.Count(b, []byte{marker})
	if len(b) >= len(d.tail) {
		copy(d.tail[:], b[len(b)-len(d.tail):])
		return
	}
	copy(d.tail[:], d.tail[len(b):])
	copy(d.tail[len(d.tail)-len(b):], b)
}

var errChunk = errors.New("malformed chunk")

// body reads a message's body and calls first when its first byte is there.
func (w *wire) body(m message, first func()) (digest, error) {
	var d digest
	if _, err := w.in.Peek(1); err != nil {
		return d, err
	}
	first()
	if !m.chunked {
		return d, w.take(&d, m.length)
	}
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return d, err
		}
		size, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 32)
		if err != nil {
			return d, fmt.Errorf("%w: %w", errChunk, err)
		}
		if err := w.take(&d, int(size)); err != nil {
			return d, err
		}
		if end, err := w.in.ReadSlice('\n'); err != nil || len(end) != 2 {
			return d, errors.Join(errChunk, err)
		}
		if size == 0 {
			return d, nil
		}
	}
}

// take adds the next n bytes to the digest.
func (w *wire) take(d *digest, n int) error {
	for n > 0 {
		if _, err := w.in.Peek(1); err != nil {
			return unexpected(err)
		}
		b, _ := w.in.Peek(min(n, w.in.Buffered())) // all that was received
		d.add(b)
		_, _ = w.in.Discard(len(b))
		n -= len(b)
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

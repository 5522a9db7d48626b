package kvevents

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// This file implements the client side of ZMTP 3.0 (https://rfc.zeromq.org/spec/23/) with the NULL mechanism,
// for a SUB and a DEALER socket. The only library in pure Go, go-zeromq/zmq4, has no maintainer ("needs a
// caring maintainer") and allocates memory for a frame of any length before it arrives; tests compare this
// file with it.

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	maxFrames = 8
	chunk     = 64 << 10 // memory for an announced frame before it arrives, in bytes
	greetIn   = 5 * time.Second
)

var errWire = errors.New("kvevents: not ZMTP 3 without security")

// wire is one connection.
type wire struct {
	c      net.Conn
	r      *bufio.Reader
	buf    []byte
	ends   []int
	frames [][]byte
}

// connect dials tcp://host:port and exchanges greetings as a socket of this kind. The connection ends with
// ctx, or by close.
func connect(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), endpoint, kind string) (*wire, error) {
	addr, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return nil, fmt.Errorf("kvevents: endpoint %q is not tcp://HOST:PORT", endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, greetIn)
	defer cancel()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	w := &wire{c: c, r: bufio.NewReader(c)}
	if err = w.greet(kind); err != nil {
		_ = c.Close()
		return nil, err
	}
	return w, nil
}

// greet sends our greeting and checks the peer's.
func (w *wire) greet(kind string) error {
	greeting := make([]byte, 64, 128)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := append([]byte("\x05READY\x0bSocket-Type"), 0, 0, 0, byte(len(kind)))
	ready = append(ready, kind...)
	if _, err := w.c.Write(appendFrame(greeting, flagCommand, ready)); err != nil {
		return err
	}
	var peer [64]byte
	if _, err := io.ReadFull(w.r, peer[:]); err != nil {
		return err
	}
	if peer[0] != 0xff || peer[9] != 0x7f || peer[10] < 3 || string(peer[12:32]) != string(greeting[12:32]) {
		return errWire
	}
	flags, err := w.frame()
	if err == nil && (flags&flagCommand == 0 || !strings.HasPrefix(string(w.buf), "\x05READY")) {
		err = errWire
	}
	return err
}

func (w *wire) close() { _ = w.c.Close() }

// send writes a message.
func (w *wire) send(frames ...[]byte) error {
	var b []byte
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		b = appendFrame(b, flags, f)
	}
	_, err := w.c.Write(b)
	return err
}

// appendFrame appends one frame of at most 255 bytes: we send no longer ones.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	return append(append(b, flags, byte(len(body))), body...)
}

// receive returns the frames of the next message. They are valid until the next call.
func (w *wire) receive() ([][]byte, error) {
	if cap(w.buf) > 1<<20 {
		w.buf = nil // large buffers are rare and not kept
	}
	w.buf, w.ends, w.frames = w.buf[:0], w.ends[:0], w.frames[:0]
	for {
		from := len(w.buf)
		flags, err := w.frame()
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			w.buf = w.buf[:from]
			continue
		}
		if w.ends = append(w.ends, len(w.buf)); len(w.ends) > maxFrames {
			return nil, fmt.Errorf("%w: more than %d frames", errWire, maxFrames)
		}
		if flags&flagMore == 0 {
			break
		}
	}
	from := 0
	for _, end := range w.ends {
		w.frames = append(w.frames, w.buf[from:end])
		from = end
	}
	return w.frames, nil
}

// frame appends the body of the next frame to buf.
func (w *wire) frame() (flags byte, err error) {
	if flags, err = w.r.ReadByte(); err != nil {
		return 0, err
	}
	width := 1
	if flags&flagLong != 0 {
		width = 8
	}
	var size [8]byte
	if _, err = io.ReadFull(w.r, size[8-width:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > uint64(maxBytes-len(w.buf)) {
		return 0, fmt.Errorf("%w: a message of more than %d bytes", errWire, maxBytes)
	}
	for left := int(n); left > 0; {
		k := min(left, chunk)
		from := len(w.buf)
		w.buf = append(w.buf, make([]byte, k)...)
		if _, err = io.ReadFull(w.r, w.buf[from:]); err != nil {
			return 0, err
		}
		left -= k
	}
	return flags, nil
}

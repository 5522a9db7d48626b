package vllmsim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// This file is the listening side of ZMTP 3.0 (https://rfc.zeromq.org/spec/23/) with the NULL mechanism, as far as vLLM's
// publisher needs it. The one pure Go library, go-zeromq/zmq4, has no maintainer; it lets one slow subscriber hold up the
// others, where libzmq drops; and it reads frames of any length. Tests hold this against it.

const (
	zmtpMore    = 1
	zmtpLong    = 2
	zmtpCommand = 4

	zmtpMaxFrame = 1 << 16 // bytes of a frame that a subscriber sends
)

var errZMTP = errors.New("vllmsim: not ZMTP 3 without security")

// zmtpGreet shakes hands as a socket of a kind, within 5 s.
func zmtpGreet(c net.Conn, kind string) (*bufio.Reader, error) {
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := append([]byte("\x05READY\x0bSocket-Type"), 0, 0, 0, byte(len(kind)))
	ready = append(ready, kind...)
	if _, err := c.Write(zmtpFrame(greeting, zmtpCommand, ready)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	peer := make([]byte, 64)
	if _, err := io.ReadFull(r, peer); err != nil {
		return nil, err
	}
	if peer[0] != 0xff || peer[9] != 0x7f || peer[10] < 3 || string(peer[12:32]) != string(greeting[12:32]) {
		return nil, errZMTP
	}
	flags, body, err := zmtpRead(r)
	if err != nil || flags&zmtpCommand == 0 || !strings.HasPrefix(string(body), "\x05READY") {
		return nil, errors.Join(errZMTP, err)
	}
	return r, c.SetDeadline(time.Time{})
}

// zmtpFrame appends one frame.
func zmtpFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) < 256 {
		b = append(b, flags, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, flags|zmtpLong), uint64(len(body)))
	}
	return append(b, body...)
}

// zmtpMessage appends a message of several frames.
func zmtpMessage(b []byte, frames ...[]byte) []byte {
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = zmtpMore
		}
		b = zmtpFrame(b, flags, f)
	}
	return b
}

func zmtpRead(r *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	width := 1
	if flags&zmtpLong != 0 {
		width = 8
	}
	var size [8]byte
	if _, err = io.ReadFull(r, size[8-width:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > zmtpMaxFrame {
		return 0, nil, errZMTP
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return flags, body, err
}

package gateway

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// What a connection of HTTP/2 may send besides requests and their bodies. The server answers each PING and SETTINGS, and
// every frame takes it some microseconds. Clients acknowledge what they get by WINDOW_UPDATE, some of them each chunk.
const (
	maxControl       = 10_000 // frames beyond the rates below
	controlPerSecond = 100.0
	bytesPerControl  = 64.0 // that the connection gets, for one more frame
)

// errControlFlood closes a connection.
var errControlFlood = errors.New("http2: too many control frames")

// frameMeter is a connection of HTTP/2 that is closed when it floods the server with frames that ask for nothing:
// everything but HEADERS, CONTINUATION (which the server bounds) and DATA with bytes.
type frameMeter struct {
	*tls.Conn
	sent atomic.Int64 // bytes to the client

	// Of the reading goroutine.
	skip  int64 // bytes until the next frame's header: the rest of a frame, at first the preface
	head  []byte
	debt  float64 // frames beyond the rates
	at    time.Time
	known int64 // part of sent that is in debt
}

// lenFrameHeader is the length of a frame's header: three bytes of length, type, flags, four of the stream.
const lenFrameHeader = 9

// Write implements net.Conn.
func (m *frameMeter) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.sent.Add(int64(n))
	return n, err
}

// Read implements net.Conn.
func (m *frameMeter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if control := m.take(p[:n]); control > 0 && !m.allows(control, time.Now()) {
		return 0, errControlFlood
	}
	return n, err
}

// take follows the frames, and returns the number of control frames that begin in p.
func (m *frameMeter) take(p []byte) (control int) {
	for len(p) > 0 {
		if m.skip > 0 {
			n := min(m.skip, int64(len(p)))
			m.skip, p = m.skip-n, p[n:]
			continue
		}
		n := min(lenFrameHeader-len(m.head), len(p))
		m.head, p = append(m.head, p[:n]...), p[n:]
		if len(m.head) < lenFrameHeader {
			return control
		}
		m.skip = int64(binary.BigEndian.Uint32(m.head) >> 8)
		switch kind := http2.FrameType(m.head[3]); {
		case kind == http2.FrameHeaders, kind == http2.FrameContinuation, kind == http2.FrameData && m.skip > 0:
		default:
			control++
		}
		m.head = m.head[:0]
	}
	return control
}

// allows charges so many frames.
func (m *frameMeter) allows(control int, now time.Time) bool {
	sent := m.sent.Load()
	m.debt -= now.Sub(m.at).Seconds()*controlPerSecond + float64(sent-m.known)/bytesPerControl
	m.debt, m.at, m.known = max(m.debt, 0)+float64(control), now, sent
	return m.debt <= maxControl
}

// meterFrames has a server speak HTTP/2 through a [frameMeter]. The server's own configuration of HTTP/2 holds.
//
//nolint:staticcheck // net/http speaks HTTP/2 on a *tls.Conn only, so this deprecated way is the one that lets a wrapper see frames
func meterFrames(s *http.Server) {
	var conf http2.Server
	_ = http2.ConfigureServer(s, &conf) // it refuses only configurations of TLS with other ciphers than its own
	s.TLSNextProto[http2.NextProtoTLS] = func(s *http.Server, c *tls.Conn, h http.Handler) {
		o := &http2.ServeConnOpts{Handler: h, BaseConfig: s}
		if base, ok := h.(interface{ BaseContext() context.Context }); ok { // net/http's own handler, which has it
			o.Context = base.BaseContext()
		}
		conf.ServeConn(&frameMeter{Conn: c, skip: int64(len(http2.ClientPreface)), at: time.Now()}, o)
	}
}

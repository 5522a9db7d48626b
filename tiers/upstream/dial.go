package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	// ConnectTimeout is the default bound of the time until a TCP connection is established.
	ConnectTimeout = time.Second
	handshake      = 10 * time.Second // of TLS, at most
)

// dialer opens connections to backends.
type dialer struct {
	connect func() time.Duration // bound of the time until a TCP connection is established, read for each; nil: ConnectTimeout
}

// bound returns the bound in force. Zero and negative values mean the default.
func (d dialer) bound() time.Duration {
	if d.connect != nil && d.connect() > 0 {
		return d.connect()
	}
	return ConnectTimeout
}

// dial opens a connection.
func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.bound(), KeepAlive: 30 * time.Second}
	return nd.DialContext(ctx, network, addr)
}

// newTransport is a transport to engines, for one TLS identity of the pools: idle connections are kept for less than the
// 5 s after which vLLM closes them, nothing is decompressed, no proxy is used and no redirect is followed. It speaks
// HTTP/1.1, over TLS as well: the end of an attempt closes its connection, which tells any engine to stop. The engine's certificate
// is always verified.
func newTransport(d dialer, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            d.dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    handshake,
		MaxIdleConnsPerHost:    maxIdle,
		MaxConnsPerHost:        maxConns,
		IdleConnTimeout:        4 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         bufferSize,
		WriteBufferSize:        bufferSize,
	}
}

// Bounds of a transport, for each backend.
const (
	maxIdle  = 512  // connections that are kept
	maxConns = 4096 // open connections; further requests wait for one

	// bufferSize is that of a connection's two buffers, in bytes, which it holds while its engine is silent, too. An event of
	// a token and most heads of requests fit into one; what is larger goes past them.
	bufferSize = 1 << 10
)

package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// ConnectTimeout is the default bound of the time until a TCP connection is established.
const ConnectTimeout = time.Second

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

// dialTLS opens a connection and does the TLS handshake, with a pool's TLS or, for nil, the system's authorities. The
// engine's certificate is always verified, for the host of addr unless the configuration names another server. The handshake
// may take twice as long as the connection.
// http.Transport's own bound of the handshake cannot be changed while it runs.
func (d dialer) dialTLS(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	raw, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*d.bound())
	defer cancel()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = host
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is more useful
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return conn, nil
}

// newTransport is a transport to engines, for one TLS identity of the pools: idle connections are kept for less than the
// 5 s after which vLLM closes them, nothing is decompressed, no proxy is used and no redirect is followed. It speaks
// HTTP/1.1, over TLS as well: the end of an attempt closes its connection, which tells any engine to stop.
func newTransport(d dialer, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext: d.dial,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.dialTLS(ctx, network, addr, config)
		},
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

// Package embedded is a Redis inside this process (miniredis), for a demonstration or a single replica. Start at [Open].
// No port is opened, unless [Server.Listen] is called.
package embedded

import (
	"context"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/connect"
)

// Server is an embedded Redis.
type Server struct {
	Client redis.UniversalClient // reaches it through a pipe

	mini   *miniredis.Miniredis
	dialer *pipeDialer
}

// Open starts a Redis; its first connection starts its goroutines.
func Open() *Server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	s := &Server{mini: m, dialer: &pipeDialer{server: m}}
	s.Client = clientOf(s.dialer.dial)
	return s
}

// clientOf makes a client by a dialer. The server is part of this process: its replies need no guard.
func clientOf(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
	o := connect.Background(connect.Options{Addrs: []string{"127.0.0.1:0"}})
	o.Dialer = dial
	return redis.NewUniversalClient(o)
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	_ = s.Client.Close() // only connections are lost
	s.dialer.stop()
}

// pipeDialer connects to an embedded Redis until that is stopped. A pool dials in the
// background, also while it is being closed: nobody would serve such a connection, or it would
// start the server again.
type pipeDialer struct {
	mu      sync.Mutex
	server  *miniredis.Miniredis
	stopped bool
}

func (d *pipeDialer) dial(context.Context, string, string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil, redis.ErrClosed
	}
	c, err := d.server.Dial()
	if err != nil {
		return nil, err
	}
	return newPipe(c), nil
}

// stop ends the server and its connections.
func (d *pipeDialer) stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.server.Close()
}

package redistest

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// Proxy stands before a server.
type Proxy struct{ *process.Proxy }

// Delay sets how late replies are from now on.
func (p Proxy) Delay(d time.Duration) { p.Set(process.NetworkFault{Delay: d}) }

// StartProxy starts a proxy whose replies are late.
func StartProxy(t testing.TB, server string, latency time.Duration) Proxy {
	t.Helper()
	p, err := process.NewProxy(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	late := Proxy{p}
	late.Delay(latency)
	return late
}

// StartFrozen starts a server that takes everything and answers nothing.
func StartFrozen(t testing.TB) (addr string) {
	t.Helper()
	s := Start(t)
	s.Freeze()
	return s.Addr
}

// Dialer is a redis.Options.Dialer.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Network is the network between one client and Redis, which the test makes fail. It works in a bubble of
// testing/synctest, too. The zero value is well.
type Network struct {
	Off     atomic.Bool  // nothing is connected, and every write fails
	Latency atomic.Int64 // of reads, in ns
}

// Dial is a dialer by this network; nil dials TCP.
func (n *Network) Dial(dial Dialer) Dialer {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n.Off.Load() {
			return nil, syscall.ECONNREFUSED
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &faultyConn{c, n}, nil
	}
}

// faultyConn is a connection by a network.
type faultyConn struct {
	net.Conn
	network *Network
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Duration(c.network.Latency.Load()))
	return n, err
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.network.Off.Load() {
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(b)
}

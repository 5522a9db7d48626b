package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redis/embedded"
)

// Background are the options of a replica's client for background work.
func Background(addr string) *redis.Options {
	return simple(connect.Background(connect.Options{Network: "tcp", Addrs: []string{addr}}))
}

// OnRequests are the options of a replica's client that requests wait for.
func OnRequests(addr string) *redis.Options {
	return simple(connect.OnRequests(connect.Background(connect.Options{Network: "tcp", Addrs: []string{addr}})))
}

// simple are the options of a client of one server. Connections are made when they are needed, so that a test may count
// them.
func simple(o *redis.UniversalOptions) *redis.Options {
	connect.Silence()
	out := o.Simple()
	out.MinIdleConns = 0
	return out
}

// Client makes a client, which is closed with the test.
func Client(t testing.TB, o *redis.Options) *redis.Client {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Embedded starts a miniredis that is reached through a pipe, and returns options of a client of it. In a bubble of
// testing/synctest its clock is the bubble's.
func Embedded(t testing.TB, options func(addr string) *redis.Options) (*miniredis.Miniredis, *redis.Options) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	o := options("127.0.0.1:1")
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		c, err := m.Dial()
		if err != nil {
			return nil, err
		}
		return embedded.Pipe(c), nil
	}
	return m, o
}

// Each runs a test on the Redis that the gateway embeds, and on a server. c is the test's own client.
func Each(t *testing.T, test func(t *testing.T, addr string, c *redis.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		test(t, m.Addr(), Client(t, &redis.Options{Addr: m.Addr(), DisableIdentity: true}))
	})
	t.Run("redis", func(t *testing.T) {
		s := Start(t)
		test(t, s.Addr, s.Client)
	})
}

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foregate/foregate/gateway/config"
)

// quietRedis keeps go-redis from writing a line of its own for every failed dial:
// what matters, that a Redis went away or came back, its users log once.
type quietRedis struct{}

// Printf drops the line.
func (quietRedis) Printf(context.Context, string, ...any) {}

// openRedis connects to the Redis that was named; nothing is sent yet, so a
// Redis that is away does not keep a replica from starting. stop ends what was
// opened. The client is nil for "none".
func openRedis(ep config.Endpoint) (client redis.UniversalClient, stop func(), err error) {
	redis.SetLogger(quietRedis{})
	o := controlOptions(ep)
	switch ep.Kind {
	case config.KindNone:
		return nil, func() {}, nil
	case config.KindEmbedded:
		return openEmbedded(o)
	}
	client = redis.NewUniversalClient(o)
	return client, func() { _ = client.Close() }, nil // only connections are lost
}

// controlOptions are those of a client for background work: no retries (a
// script that ran twice would count twice), short deadlines that hold for socket
// I/O too, few connections.
func controlOptions(ep config.Endpoint) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs: ep.Addrs, Username: ep.Username, Password: string(ep.Password), DB: ep.DB, MasterName: ep.Master,
		IsClusterMode:         ep.Kind == config.KindCluster,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           250 * time.Millisecond,
		ReadTimeout:           250 * time.Millisecond,
		WriteTimeout:          250 * time.Millisecond,
		PoolSize:              4, MinIdleConns: 1, MaxActiveConns: 8,
		PoolTimeout:     50 * time.Millisecond,
		MaxRedirects:    1,
		DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled, // it would raise read timeouts to 10 s
		},
	}
	if ep.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if ep.Network == "unix" {
		o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", addr)
		}
	}
	return o
}

// openEmbedded starts a Redis inside this process, reached through a pipe: no
// port is opened. It serves one process only.
func openEmbedded(o *redis.UniversalOptions) (redis.UniversalClient, func(), error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, nil, fmt.Errorf("embedded Redis: %w", err)
	}
	o.Addrs = []string{"127.0.0.1:0"}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		c, err := m.Dial()
		if err != nil {
			return nil, err
		}
		return newPipe(c), nil
	}
	client := redis.NewUniversalClient(o)
	return client, func() {
		_ = client.Close() // only connections are lost
		m.Close()
	}, nil
}

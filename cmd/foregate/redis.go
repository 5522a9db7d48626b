package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
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

// clients are a replica's connections to one Redis; both are nil for "none".
type clients struct {
	control redis.UniversalClient // of loops in the background
	request redis.UniversalClient // of what a request may ask for while it waits

	embedded *miniredis.Miniredis // behind both; nil for one that is elsewhere
}

// openRedis connects to the Redis that was named, with the passwords of files; nothing is waited for, so a
// Redis that is away does not keep a replica from starting. stop ends what was
// opened. An error is one of a file that the endpoint names.
func openRedis(ep config.Endpoint, files passwords) (c clients, stop func(), err error) {
	redis.SetLogger(quietRedis{})
	if ep.Kind == config.KindNone {
		return clients{}, func() {}, nil
	}
	o, err := files.options(ep)
	if err != nil {
		return clients{}, nil, err
	}
	if ep.Kind == config.KindEmbedded {
		m := miniredis.NewMiniRedis()
		client, stop := openEmbedded(m, o)
		return clients{control: client, request: client, embedded: m}, stop, nil
	}
	c.control = dialing(o)
	c.request = dialing(onRequests(o))
	ready := warm(c.request)
	return c, func() {
		_ = c.request.Close() // only connections are lost
		_ = c.control.Close()
		<-ready
	}, nil
}

// dialing makes a client that believes no reply a Redis would not give (respGuard). One of
// a cluster asks for the slots and nothing else: it would also have each command wait, for
// up to 5 s of its own, until one of the nodes had told it about all commands that there are.
func dialing(options *redis.UniversalOptions) redis.UniversalClient {
	o := *options
	o.Dialer = guardedDialer(options)
	if !o.IsClusterMode {
		return redis.NewUniversalClient(&o)
	}
	c := o.Cluster()
	c.DisableRoutingPolicies = true
	return redis.NewClusterClient(c)
}

// warm has a client ask its Sentinels, or its cluster for the slots, before a
// request has to. ready is closed when that is over, after 2 s at most.
func warm(c redis.UniversalClient) (ready <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // a client that panics at a reply is no reason to end
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = c.Ping(ctx).Err() // who uses the client finds out as well
	}()
	return done
}

// controlOptions are those of a client for background work: no retries (a
// script that ran twice would count twice), short deadlines that hold for socket
// I/O too, few connections. In a cluster a command that was sent to the wrong node
// goes on at once to the one that it tells, and no further.
func controlOptions(ep config.Endpoint) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs: ep.Addrs, Username: ep.Username, Password: string(ep.Password), DB: ep.DB,
		MasterName: ep.Master, SentinelUsername: ep.SentinelUsername,
		IsClusterMode:         ep.Kind == config.KindCluster,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		MinRetryBackoff:       -1,
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
	if ep.Network == "unix" {
		o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", addr)
		}
	}
	return o
}

// onRequests makes the options of a client that requests wait for: many
// connections, none of which is waited for, and replies that are late sooner. Its
// callers have deadlines of their own, and leave a command behind rather than cut
// it off, because that would cost a connection.
func onRequests(control *redis.UniversalOptions) *redis.UniversalOptions {
	o := *control
	o.ReadTimeout, o.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 32, 4, 64
	o.PoolTimeout = 5 * time.Millisecond
	o.PipelinePoolSize = -1 // pipelines use the pool that there is
	return &o
}

// tlsOf reads the files of an endpoint with TLS; nil is without. Server
// certificates are checked against the name that is dialed, or the one given.
func tlsOf(ep config.Endpoint) (*tls.Config, error) {
	if !ep.TLS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: ep.ServerName}
	if ep.CAFile != "" {
		pem, err := os.ReadFile(ep.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", ep.CAFile)
		}
	}
	if ep.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(ep.CertFile, ep.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// How soon a node that has gone without a word is noticed on an idle connection: go-redis' values.
const (
	keepAliveIdle     = 30 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveProbes   = 3
)

// guardedConn is a connection to Redis whose replies a respGuard follows: one that it
// refuses closes it, and nothing of what it refused is read.
type guardedConn struct {
	net.Conn
	replies    respGuard // of the one goroutine that reads at a time
	subscribed atomic.Bool
}

// guardReplies wraps a connection. The health check of go-redis' pool looks for a
// syscall.Conn, and takes one that has none for healthy.
func guardReplies(c net.Conn) net.Conn {
	g := &guardedConn{Conn: c}
	if raw, ok := c.(syscall.Conn); ok {
		return struct {
			*guardedConn
			syscall.Conn
		}{g, raw}
	}
	return g
}

// Read reads what the guard lets pass.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.replies.subscribed = c.subscribed.Load()
	if refused := c.replies.pass(b[:n]); refused != nil {
		_ = c.Close() // nothing more is believed
		return 0, refused
	}
	return n, err
}

// Write notes a subscription, which go-redis writes by itself.
func (c *guardedConn) Write(b []byte) (int, error) {
	if !c.subscribed.Load() && subscribes(b) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

// subscribes reports whether a command is SUBSCRIBE.
func subscribes(b []byte) bool {
	_, rest, _ := bytes.Cut(b[:min(len(b), 32)], []byte("\r\n"))
	return bytes.HasPrefix(rest, []byte("$9\r\nsubscribe\r\n"))
}

// guardedDialer connects as the options say, with TLS where they have it, and guards what
// it has connected. It is for nodes, Sentinels and whatever master these name.
func guardedDialer(o *redis.UniversalOptions) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := o.Dialer
	if dial == nil {
		// As go-redis' own, whose timeout covers the handshake, too.
		d := &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveProbes,
		}}
		dial = d.DialContext
		if o.TLSConfig != nil {
			dial = (&tls.Dialer{NetDialer: d, Config: o.TLSConfig}).DialContext
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return guardReplies(c), nil
	}
}

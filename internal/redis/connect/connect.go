// Package connect makes clients of a Redis: one server, one behind Sentinels, or a cluster; by TCP or a Unix socket, with
// TLS and ACL users. Start at [Open], or at [Background] where a client needs options of its own.
//
// Nothing is waited for: a Redis that is away does not keep a replica from starting. No client retries, and all have short
// deadlines that hold for socket I/O too. Redis is the operator's own, so its replies are trusted as go-redis trusts them.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where a Redis is, and who connects.
type Options struct {
	Network string   // "tcp" or "unix"
	Addrs   []string // host:port of the server, of Sentinels or of nodes of a cluster; or the path of a socket
	DB      int
	Master  string // that Sentinels know; "" is without Sentinels
	Cluster bool

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	// Credentials are asked at each new connection, in place of Username and Password; nil is these.
	Credentials func() (user, password string)
	TLS         *tls.Config // nil is without
}

// Clients are the connections to one Redis.
type Clients struct {
	Control redis.UniversalClient // of loops in the background
	Request redis.UniversalClient // of what a request asks for while it waits
}

// Open makes the clients. stop closes them.
func Open(o Options) (c Clients, stop func()) {
	background := Background(o)
	c = Clients{Control: New(background), Request: New(OnRequests(background))}
	return c, func() { _, _ = c.Request.Close(), c.Control.Close() } // only connections are lost
}

// silent keeps go-redis from writing a line of its own for every failed dial:
// what matters, that a Redis went away or came back, its users log once.
type silent struct{}

// Printf drops the line.
func (silent) Printf(context.Context, string, ...any) {}

// Silence keeps go-redis from logging; [New] does it, too.
func Silence() { redis.SetLogger(silent{}) }

// New makes a client. Options are made by [Background].
// A client of a cluster asks for the slots and nothing else: by default it would also have each command wait, for
// up to 5 s of its own, until one of the nodes had told it about all commands that there are.
func New(options *redis.UniversalOptions) redis.UniversalClient {
	Silence()
	o := *options
	if !o.IsClusterMode {
		return redis.NewUniversalClient(&o)
	}
	c := o.Cluster()
	c.DisableRoutingPolicies = true
	return redis.NewClusterClient(c)
}

// Background are the options of a client for background work: no retries (a
// script that ran twice would count twice), short deadlines that hold for socket
// I/O too, few connections. In a cluster a command that was sent to the wrong node
// goes on at once to the node that has the slot, and no further.
func Background(ep Options) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs: ep.Addrs, Username: ep.Username, Password: ep.Password, DB: ep.DB, CredentialsProvider: ep.Credentials,
		MasterName: ep.Master, SentinelUsername: ep.SentinelUsername, SentinelPassword: ep.SentinelPassword,
		IsClusterMode:         ep.Cluster,
		TLSConfig:             ep.TLS,
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

// OnRequests makes the options of a client that requests wait for: many
// connections, none of which is waited for, and replies that are late sooner. Its
// callers have deadlines of their own, and leave a command behind rather than cut
// it off, because that would cost a connection.
func OnRequests(background *redis.UniversalOptions) *redis.UniversalOptions {
	o := *background
	o.ReadTimeout, o.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 32, 4, 64
	o.PoolTimeout = 5 * time.Millisecond
	o.PipelinePoolSize = -1 // pipelines use the pool that there is
	return &o
}

// TLSFiles are the files of a connection with TLS, in PEM. "" is without: the system's authorities, no certificate, the
// name that is dialed.
type TLSFiles struct{ CA, Cert, Key, ServerName string }

// Config reads the files. Server certificates are checked against the name that is dialed, or ServerName.
func (f TLSFiles) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", f.CA)
		}
	}
	if f.Cert != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

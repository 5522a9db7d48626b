// Package stores opens the configured connections to Redis: for a replica one per use, and for operators'
// commands one with long timeouts. Passwords in files are reloaded when they change.
package stores

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redis/embedded"
)

// Stores are the connections of one replica, or of several in one process; nil is none. Their opener closes
// them after the replicas have stopped.
type Stores struct {
	Control   redis.UniversalClient // background work: settings, fleet, breakers, evidence
	Lookups   redis.UniversalClient // limits of tenants, which requests wait for; Control if it is nil
	Answers   redis.UniversalClient // cached answers: lookups, which requests wait for, and writes
	Responses redis.UniversalClient // stored responses, beside the answers; in this process where there is no Redis
	Settings  redis.UniversalClient // changes of settings by operators
	Name      string                // name of the Redis of Control, without credentials
	Files     []files.File          // passwords of the connections, for reload
	Embedded  *embedded.Server      // the server of Control; nil for an external Redis
}

// Open connects without waiting: an unavailable Redis does not prevent a start. stop closes everything. An
// error comes from the configuration, or from a file that it names.
func Open(r config.Redis) (s Stores, stop func(), err error) {
	passwords, err := readPasswords(r)
	if err != nil {
		return Stores{}, nil, err
	}
	o := opener{Redis: r, passwords: passwords, stores: Stores{Name: r.Endpoint().String(), Files: passwords.files()}}
	for _, open := range []func() error{o.openControl, o.openAnswers, o.openSettings} {
		if err := open(); err != nil {
			o.stop()
			return Stores{}, nil, err
		}
	}
	return o.stores, o.stop, nil
}

// opener collects the opened connections.
type opener struct {
	config.Redis
	passwords passwords
	stores    Stores
	cleanups  []func()
}

func (o *opener) stop() {
	for _, f := range slices.Backward(o.cleanups) {
		f()
	}
}

// options returns the client options for an endpoint, whose user has its password in the file of a setting. Each new connection
// uses the file's password at that time.
func (o *opener) options(ep config.Endpoint, passwordFile string) (at connect.Options, err error) {
	at = connect.Options{
		Network: ep.Network, Addrs: ep.Addrs, DB: ep.DB, Master: ep.Master, Cluster: ep.Kind == config.KindCluster,
		Username: ep.Username, Password: string(ep.Password),
	}
	if ep.TLS {
		files := connect.TLSFiles{CA: o.CAFile, Cert: o.CertFile, Key: o.KeyFile, ServerName: o.ServerName}
		if at.TLS, err = files.Config(); err != nil {
			return connect.Options{}, fmt.Errorf("redis: %w", err)
		}
	}
	if p := o.passwords[passwordFile]; p != nil {
		at.Credentials = func() (user, password string) { return ep.Username, *p.now.Load() }
	}
	if p := o.passwords[config.SentinelPasswordFile]; p != nil && ep.Kind == config.KindSentinel {
		at.SentinelUsername, at.SentinelPassword = o.SentinelUsername, *p.now.Load()
	}
	return at, nil
}

// openControl connects to the Redis that replicas share.
func (o *opener) openControl() error {
	ep := o.Endpoint()
	switch ep.Kind {
	case config.KindNone:
		return nil
	case config.KindEmbedded:
		s := embedded.Open()
		o.cleanups = append(o.cleanups, s.Stop)
		o.stores.Embedded, o.stores.Control, o.stores.Lookups = s, s.Client, s.Client
		return nil
	}
	at, err := o.options(ep, config.PasswordFile)
	if err != nil {
		return err
	}
	clients, stop := connect.Open(at)
	o.cleanups = append(o.cleanups, stop)
	o.stores.Control, o.stores.Lookups = clients.Control, clients.Request
	return nil
}

// openAnswers connects to the Redis of cached answers. Even if it is the shared one, answers have connections
// of their own, so that many look-ups take none from the tenants' limits.
func (o *opener) openAnswers() error {
	ep := o.CacheEndpoint()
	if ep.Kind == config.KindNone || ep.Kind == config.KindEmbedded {
		client, stop := embedded.OpenAnswers()
		o.cleanups = append(o.cleanups, stop)
		if o.stores.Responses = client; ep.Kind == config.KindEmbedded {
			o.stores.Answers = client
		}
		return nil
	}
	at, err := o.options(ep, config.PasswordFile)
	if err != nil {
		return err
	}
	background := connect.Background(at)
	answers, stored := connect.New(onLookups(background)), connect.New(onStored(background))
	o.cleanups = append(o.cleanups, func() { _, _ = answers.Close(), stored.Close() }) // only connections are lost
	o.stores.Answers, o.stores.Responses = answers, stored
	return nil
}

// openSettings connects, at the first change, to the Redis for operators' changes. Settings of an embedded
// Redis are written there.
func (o *opener) openSettings() (err error) {
	switch ep, _ := o.SettingsEndpoint(); ep.Kind {
	case config.KindNone:
		return nil
	case config.KindEmbedded:
		o.stores.Settings = o.stores.Control
		return nil
	}
	if o.stores.Settings, err = o.forOperator(); err == nil {
		o.cleanups = append(o.cleanups, func() { _ = o.stores.Settings.Close() }) // only connections are lost
	}
	return err
}

// onStored returns the options for stored responses: values of up to some MiB, which a request waits for.
func onStored(background *redis.UniversalOptions) *redis.UniversalOptions {
	o := *background
	o.ReadTimeout, o.WriteTimeout = time.Second, time.Second
	o.PoolSize, o.MaxActiveConns = 16, 32
	return &o
}

// onLookups returns the options for look-ups of answers, which are larger than the requests' other replies.
func onLookups(control *redis.UniversalOptions) *redis.UniversalOptions {
	o := connect.OnRequests(control)
	o.ReadBufferSize = 64 << 10
	return o
}

// OpenForOperator connects for an operator's command: like a replica, but with timeouts of seconds.
func OpenForOperator(r config.Redis) (c redis.UniversalClient, err error) {
	if _, file := r.SettingsEndpoint(); file != config.PasswordFile {
		r.PasswordFile = "" // the replicas' password may be none of the operator's business
	}
	passwords, err := readPasswords(r)
	if err != nil {
		return nil, err
	}
	o := opener{Redis: r, passwords: passwords}
	return o.forOperator()
}

func (o *opener) forOperator() (redis.UniversalClient, error) {
	at, err := o.options(o.SettingsEndpoint())
	if err != nil {
		return nil, err
	}
	background := connect.Background(at)
	background.DialTimeout, background.ReadTimeout, background.WriteTimeout, background.PoolTimeout = 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second
	background.MinIdleConns = 0
	return connect.New(background), nil
}

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redis/embedded"
)

// stores are the connections to Redis that a configuration asks for.
type stores struct {
	app.Stores
	embedded *embedded.Server // behind Control; nil for one that is elsewhere
}

// openStores connects to them; nothing is waited for. stop ends what was opened. An error is one
// of the configuration.
func openStores(r config.Redis) (s stores, stop func(), err error) {
	var opened []func()
	endAll := func() {
		for _, end := range slices.Backward(opened) {
			end()
		}
	}
	defer func() {
		if err != nil {
			endAll()
		}
	}()
	endpoint, err := r.Endpoint()
	if err != nil {
		return stores{}, nil, err
	}
	files, err := passwordsOf(r)
	if err != nil {
		return stores{}, nil, err
	}
	s.Name, s.Files = endpoint.String(), files.files()
	control, end, err := openRedis(endpoint, files)
	if err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	s.Control, s.Lookups, s.embedded = control.Control, control.Request, control.embedded
	kept, end, err := openAnswers(r, files)
	if err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	s.Answers, s.Leases, s.Tracking = kept.request, kept.leases, kept.tracking
	if s.Settings, end, err = openSettings(r, files, s.Control); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	return s, endAll, nil
}

// coordination are the connections to the Redis of coordination; nil where there is none.
type coordination struct {
	connect.Clients
	embedded *embedded.Server // behind both; nil for one that is elsewhere
}

// openRedis connects to the Redis of coordination, with the passwords of files. stop ends what was opened. The error
// is one of a file that the endpoint names.
func openRedis(ep config.Endpoint, files passwords) (c coordination, stop func(), err error) {
	switch ep.Kind {
	case config.KindNone:
		return coordination{}, func() {}, nil
	case config.KindEmbedded:
		s := embedded.Open()
		return coordination{connect.Clients{Control: s.Client, Request: s.Client}, s}, s.Stop, nil
	}
	o, err := files.options(ep)
	if err != nil {
		return coordination{}, nil, err
	}
	c.Clients, stop = connect.Open(o)
	return c, stop, nil
}

// answers are a replica's connections to the Redis of cached answers; all are nil where
// nothing is kept.
type answers struct {
	request  redis.UniversalClient // of lookups, which requests wait for, and of writes
	leases   redis.UniversalClient // of what is told of requests under way, in the background
	tracking redis.UniversalClient // of invalidations; nil where there are none to be had
}

// openAnswers connects to the Redis of cached answers as openRedis does to that of
// coordination. Where both are one, each has connections of its own: a burst of lookups takes
// none from tenants' limits.
func openAnswers(r config.Redis, files passwords) (a answers, stop func(), err error) {
	ep, err := r.CacheEndpoint()
	if err != nil {
		return answers{}, nil, err
	}
	switch ep.Kind {
	case config.KindNone:
		return answers{}, func() {}, nil
	case config.KindEmbedded:
		client, stop := embedded.OpenAnswers()
		return answers{request: client, leases: client}, stop, nil
	}
	at, err := files.options(ep)
	if err != nil {
		return answers{}, nil, err
	}
	o := connect.Background(at)
	a.request, a.leases = connect.New(onLookups(o)), connect.New(onLeases(o))
	opened := []redis.UniversalClient{a.request, a.leases}
	if ep.Kind != config.KindCluster { // each node would tell of its own keys, to whoever asked it alone
		a.tracking = connect.New(onTracking(o))
		opened = append(opened, a.tracking)
	}
	ready := connect.Warm(a.request)
	return a, func() {
		for _, c := range opened {
			_ = c.Close() // only connections are lost
		}
		<-ready
	}, nil
}

// onLookups makes the options of a client for answers, which are larger than what else
// requests ask for.
func onLookups(control *redis.UniversalOptions) *redis.UniversalOptions {
	o := connect.OnRequests(control)
	o.ReadBufferSize = 64 << 10
	o.ReadTimeout = 250 * time.Millisecond // a late word on who answers an identical request is still of use
	return o
}

// onLeases makes the options of a client for requests under way: a few round trips a second
// for each, in the background, so that they take no connection from lookups.
func onLeases(control *redis.UniversalOptions) *redis.UniversalOptions {
	o := *control
	o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 8, 0, 16
	o.PipelinePoolSize = -1
	return &o
}

// onTracking makes the options of a client that has one connection, on which Redis tells
// what has changed. It is kept as long as it answers.
func onTracking(control *redis.UniversalOptions) *redis.UniversalOptions {
	o := *control
	cache.Tracked(&o)
	o.ConnMaxIdleTime = -1
	return &o
}

// openSettings connects to the Redis where settings are written, when somebody first does. Settings of
// an embedded Redis are written there. nil is none.
func openSettings(r config.Redis, files passwords, shared redis.UniversalClient) (client redis.UniversalClient, stop func(), err error) {
	ep, err := r.SettingsEndpoint()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("redis.settings_url: %w", err)
	case ep.Kind == config.KindNone:
		return nil, func() {}, nil
	case ep.Kind == config.KindEmbedded:
		return shared, func() {}, nil
	}
	if client, err = openPatientWith(ep, files); err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil // only connections are lost
}

// openPatient connects as a replica does, and waits longer: people have more patience, and worse
// lines.
func openPatient(ep config.Endpoint) (c redis.UniversalClient, err error) {
	files, err := readPasswords(ep)
	if err != nil {
		return nil, err
	}
	return openPatientWith(ep, files)
}

// openPatientWith is patient with the passwords of files that were read before.
func openPatientWith(ep config.Endpoint, files passwords) (redis.UniversalClient, error) {
	at, err := files.options(ep)
	if err != nil {
		return nil, err
	}
	o := connect.Background(at)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 5*time.Second, 5*time.Second, 5*time.Second, 5*time.Second
	o.MinIdleConns = 0
	return connect.New(o), nil
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
)

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
func openAnswers(r config.Redis) (a answers, stop func(), err error) {
	ep, err := r.CacheEndpoint()
	if err != nil {
		return answers{}, nil, err
	}
	switch ep.Kind {
	case config.KindNone:
		return answers{}, func() {}, nil
	case config.KindEmbedded:
		client, stop := openEmbeddedAnswers(controlOptions(ep))
		return answers{request: client, leases: client}, stop, nil
	}
	o := controlOptions(ep)
	if o.TLSConfig, err = tlsOf(ep); err != nil {
		return answers{}, nil, fmt.Errorf("redis: %w", err)
	}
	a.request, a.leases = dialing(onLookups(o)), dialing(onLeases(o))
	opened := []redis.UniversalClient{a.request, a.leases}
	if ep.Kind != config.KindCluster { // each node would tell of its own keys, to whoever asked it alone
		a.tracking = dialing(onTracking(o))
		opened = append(opened, a.tracking)
	}
	ready := warm(a.request)
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
	o := onRequests(control)
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

// sealer reads the keys that answers are sealed with. An error names the field; the path is
// not repeated, because a secret may have been written in its place.
func sealer(c config.Cache) (s *cache.Sealer, warnings []string, err error) {
	var keys []cache.SealKey
	for i, k := range c.SealKeys {
		at := fmt.Sprintf("cache.seal_keys[%d].file", i)
		secret, open, err := identity.ReadSecret(k.File)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: the file of key %s: %w", at, k.ID, err)
		}
		for _, other := range keys {
			if bytes.Equal(other.Secret, secret) {
				return nil, nil, fmt.Errorf("%s: the file of key %s: holds the secret of key %s; a key that is to replace another must differ", at, k.ID, other.ID)
			}
		}
		if open {
			warnings = append(warnings, fmt.Sprintf("%s: the file of key %s may be read by every user of this machine; take the permission away (chmod o-r)", at, k.ID))
		}
		keys = append(keys, cache.SealKey{ID: k.ID, Secret: secret})
	}
	if s, err = cache.NewSealer(keys...); err != nil {
		return nil, nil, fmt.Errorf("cache.seal_keys: %w", err)
	}
	return s, warnings, nil
}

// makeCache wires the cache of answers, and what joins identical requests. Where no Redis
// keeps answers, only requests of this process are joined.
func (r *replica) makeCache() error {
	s, warnings, err := sealer(r.file.Cache)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		r.log.Warn().Msg(w)
	}
	local := r.file.Cache.LocalBytes
	if local == 0 {
		local = -1 // none
	}
	maxEntry := func() int { return r.settings.Snapshot().Global().Cache.MaxEntry }
	r.salt = s.Salt
	r.flights = cache.NewFlights(cache.FlightOptions{Redis: r.answers.leases, Sealer: s, MaxEntry: maxEntry, Logger: r.log})
	if r.registerer != nil {
		r.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "foregate_cache_sharing", Help: "Requests that share an answer in the making, or make one that others may share.",
		}, func() float64 { return float64(r.flights.Seats()) }))
	}
	r.cache = cache.NewStore(cache.Options{
		Redis: r.answers.request, Control: r.redis, Sealer: s, LocalBytes: local, Tracking: r.answers.tracking,
		Budget:   func() time.Duration { return r.settings.Snapshot().Global().Cache.Budget },
		MaxEntry: maxEntry,
		Logger:   r.log, Registerer: r.registerer,
	})
	return nil
}

// cacheConfig is what is in force for a route.
func (r *replica) cacheConfig(route string) cache.Config {
	return r.settings.Snapshot().Route(route).Cache
}

// purger makes answers unreachable for all replicas; nil where none are kept.
func (r *replica) purger() func(context.Context, cache.Scope) (bool, error) {
	control := r.redis
	if control == nil {
		control = r.answers.request
	}
	if r.answers.request == nil {
		return nil
	}
	return func(ctx context.Context, s cache.Scope) (bool, error) { return cache.Purge(ctx, control, s) }
}

// served says which model and revision of it a route's pools have; draft is "" without one.
func (r *replica) served(route string) (draft, target string) {
	name := func(pool string) string {
		def, ok := r.file.Pools[pool]
		if !ok || def.Revision == "" {
			return def.Model
		}
		return def.Model + " " + def.Revision // neither holds a space
	}
	for _, def := range r.file.Routes {
		if def.Model == route {
			return name(def.Draft), name(def.Target)
		}
	}
	return "", ""
}

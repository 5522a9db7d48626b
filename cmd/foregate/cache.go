package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/gateway/secrets"
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
func openAnswers(r config.Redis, files passwords) (a answers, stop func(), err error) {
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
	o, err := files.options(ep)
	if err != nil {
		return answers{}, nil, err
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

// sealer makes what seals answers, with the keys of the file that is named, which is read again when it changes.
func sealer(c config.Cache, files *reload.Watcher, log zerolog.Logger) (*cache.Sealer, error) {
	if c.SealKeysFile == "" {
		return cache.NewSealer()
	}
	var s *cache.Sealer
	err := files.Add(reload.File{
		Setting: "cache.seal_keys_file", Paths: []string{c.SealKeysFile}, Max: secrets.MaxFile, Secret: true,
		Apply: func(contents [][]byte) error {
			lines, err := secrets.Keys(contents[0])
			if err != nil {
				return err
			}
			keys := make([]cache.SealKey, len(lines))
			for i, line := range lines {
				keys[i] = cache.SealKey(line)
			}
			if s == nil {
				s, err = cache.NewSealer(keys...)
				return err
			}
			before := s.Salt("")
			if err := s.Replace(keys...); err != nil {
				return err
			}
			if s.Salt("") != before {
				log.Info().Str("key", keys[0].ID).Msg("answers are sealed with another key, and cache_salt has changed with it: engines compute each prefix once more")
			}
			return nil
		},
	})
	return s, err
}

// makeCache wires the cache of answers, and what joins identical requests. Where no Redis
// keeps answers, only requests of this process are joined.
func (r *replica) makeCache() error {
	s, err := sealer(r.file.Cache, r.files, r.log)
	if err != nil {
		return err
	}
	local := r.file.Cache.LocalBytes
	if local == 0 {
		local = -1 // none
	}
	maxEntry := func() int { return r.settings.Snapshot().Global().Cache.MaxEntryBytes }
	r.salt = s.Salt
	r.generations = cache.NewGenerations(cache.GenerationOptions{Redis: r.answers.leases, Sealer: s, MaxEntry: maxEntry, Logger: r.log})
	if r.registerer != nil {
		r.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "foregate_cache_coalescing_requests", Help: "Requests that share an answer in the making, or make one that others may share.",
		}, func() float64 { return float64(r.generations.Subscribers()) }))
	}
	r.cache = cache.NewStore(cache.Options{
		Redis: r.answers.request, Control: r.redis, Sealer: s, LocalBytes: local, Tracking: r.answers.tracking,
		Budget:   func() time.Duration { return r.settings.Snapshot().Global().Cache.LookupTimeout },
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

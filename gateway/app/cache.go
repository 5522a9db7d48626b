package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers"
)

// sealer seals answers with the keys of the configured file, which is reloaded when it changes.
func sealer(c config.Cache, watcher *files.Watcher, log zerolog.Logger) (*cache.Sealer, error) {
	if c.SealKeysFile == "" {
		return cache.NewSealer()
	}
	var s *cache.Sealer
	err := watcher.Add(files.File{
		Setting: "cache.seal_keys_file", Paths: []string{c.SealKeysFile}, Max: files.MaxSecrets, Secret: true,
		Apply: func(contents [][]byte) error {
			lines, err := files.Keys(contents[0])
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

// makeCache makes the cache of answers, and the generations that requests of this process share.
func (a *App) makeCache() error {
	s, err := sealer(a.Options.File.Cache, a.files, a.Options.Logger)
	if err != nil {
		return err
	}
	local := a.Options.File.Cache.LocalBytes
	if local == 0 {
		local = -1 // none
	}
	maxEntry := func() int { return a.Settings.Snapshot().Global().Cache.MaxEntryBytes }
	a.salt = s.Salt
	a.Generations = pipeline.NewGenerations(nil)
	if a.Options.Registerer != nil {
		a.Options.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "foregate_cache_coalescing_requests", Help: "Requests that share an answer being generated, or generate one that others may share.",
		}, func() float64 { return float64(a.Generations.Subscribers()) }))
	}
	a.Cache = cache.NewStore(cache.Options{
		Redis: a.Options.Stores.Answers, Control: a.Options.Stores.Control, Exchange: a.Options.Stores.Control != nil, Sealer: s, LocalBytes: local,
		Budget:   func() time.Duration { return a.Settings.Snapshot().Global().RedisTimeout },
		MaxEntry: maxEntry,
		Logger:   a.Options.Logger, Registerer: a.Options.Registerer,
	})
	a.makeConversations(s)
	return nil
}

// makeConversations makes the store of responses, whose values are sealed as answers are.
func (a *App) makeConversations(s *cache.Sealer) {
	if a.Options.Stores.Responses == nil {
		return
	}
	body := a.Options.File.Limits.BodyBytes
	a.Conversations = conversations.New(conversations.Options{
		Redis: a.Options.Stores.Responses, Sealer: s, MaxBytes: body,
		Epochs: func(tenant string) (e cache.Epochs, ok bool) {
			e, ok = a.Cache.Epochs(tenant, "")
			return e, ok && a.Cache.Hears()
		},
		Config: func() conversations.Config { return a.Settings.Snapshot().Global().Responses },
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	})
}

// served returns the model and revision of a route's pools.
func served(f *config.File, rt config.Route) tiers.Served {
	name := func(pool string) string {
		def, ok := f.Pools[pool]
		if !ok || def.Revision == "" {
			return def.Model
		}
		return def.Model + " " + def.Revision // neither holds a space
	}
	return tiers.Served{Draft: name(rt.Draft), Target: name(rt.Target)}
}

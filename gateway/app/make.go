package app

import (
	"context"
	crand "crypto/rand"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/console"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/upstream"
	"github.com/foregate/foregate/tiers/world"
)

// The makers of the components, in the order in which New calls them.

// makeFiles starts the list of files that are reloaded when they change. Other components add theirs.
func (a *App) makeFiles() error {
	a.listeners.expiry = files.NewExpiry(a.Registerer)
	a.files = files.New(files.Options{Logger: a.Logger, Registerer: a.Registerer})
	for _, f := range a.Stores.Files {
		if err := a.files.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// makeSettings reads the live settings. If Redis is unavailable, the defaults are in force until it answers.
func (a *App) makeSettings(ctx context.Context) error {
	var store *settings.Store
	if client := a.Stores.Settings; client != nil {
		store = settings.NewStore(client, nil)
	}
	a.Settings = settings.New(settings.Options{
		Store: store, Redis: a.Stores.Control, Routes: a.routes(), Registerer: a.Registerer,
		Logger: a.Logger.With().Str("redis", a.Stores.Name).Logger(),
	})
	_ = a.Settings.Poll(ctx) // it logs failures and tries again every second
	return nil
}

// keepPurges is longer than any answer is kept.
const keepPurges = 400 * 24 * time.Hour

// makeFleet makes what pools need: the queues in which requests wait for pools without free memory, the breakers of all
// backends, and the fleet, through which replicas share state.
func (a *App) makeFleet() error {
	a.queues = admission.NewQueues(slices.Collect(maps.Keys(a.File.Pools)), a.Registerer)
	a.Breakers = breaker.New(breaker.Options{
		Config:   func() breaker.Config { return a.global().Breaker },
		Classify: outcome, Probe: a.probe, Logger: a.Logger, Registerer: a.Registerer,
		Mine: func(pool, name string) bool { return a.Fleet.Mine(pool, name) }, Wake: func() { a.Fleet.Wake() },
		Replica: crand.Text(), World: world.System{}, Draw: rand.Float64,
	})
	a.Fleet = fleet.New(fleet.Options{
		Redis: a.Stores.Control, Expect: a.File.Redis.Replicas, Logger: a.Logger, Registerer: a.Registerer,
		// A reading takes up to one tick of its sender and one of its receiver, and must arrive before it is
		// overdue (pool.Overdue).
		Interval: func() time.Duration { return a.global().ScrapeInterval / 2 },
		Topics: []fleet.Topic{
			{
				Name: probe.Topic, Tell: func() map[string]string { return a.prober.Tell() },
				Take: func(pool, text string, age time.Duration) { a.prober.Take(pool, text, age) },
			},
			{
				Name: cache.TopicPurges, Tell: func() map[string]string { return a.Cache.Tell() }, Heard: func(at time.Time) { a.Cache.Heard(at) },
				Take:    func(scope, text string, age time.Duration) { a.Cache.Take(scope, text, age) },
				Lasting: true, Max: fleet.MaxTold, Keep: keepPurges,
			},
			{Name: breaker.Topic, Tell: a.Breakers.Tell, Take: a.Breakers.Take, Keep: time.Minute},
		},
		Lost: []func(){func() { a.Ledger.Lost() }}, // prober, cache and ledger are made after the fleet
	})
	return nil
}

// makePools makes the pools of backends. They watch their backends while the replica runs.
func (a *App) makePools() error {
	r, err := a.newRouting(a.File, &routing{})
	if err != nil {
		return err
	}
	a.routing.Store(r)
	a.Fleet.SetPools(r.fleetPools())
	return nil
}

// makeLedger makes the ledger of tenants' limits, budgets and usage, over all replicas of the fleet.
func (a *App) makeLedger() error {
	o := ledger.Options{
		Redis: a.Stores.Lookups, Background: a.Stores.Control, Embedded: a.Stores.Embedded != nil, Replicas: a.Fleet.Replicas,
		Budget: func() time.Duration { return a.global().RedisTimeout }, Logger: a.Logger, Registerer: a.Registerer,
	}
	if o.Redis == nil {
		o.Redis = a.Stores.Control
	}
	a.Ledger = ledger.New(o)
	return nil
}

// makeCache makes the cache of answers, the generations that requests of this process share, and the store of responses,
// whose values are sealed as answers are.
func (a *App) makeCache() error {
	s, err := sealer(a.File.Cache, a.files, a.Logger)
	if err != nil {
		return err
	}
	local := a.File.Cache.LocalBytes
	if local == 0 {
		local = -1 // none
	}
	a.salt = s.Salt
	a.Generations = tiers.NewGenerations(world.System{})
	a.registerGauge("foregate_cache_coalescing_requests", "Requests that share an answer being generated, or generate one that others may share.",
		func() float64 { return float64(a.Generations.Subscribers()) })
	var share func(context.Context) error
	if a.Stores.Control != nil {
		share = a.Fleet.Share
	}
	a.Cache = cache.NewStore(cache.Options{
		Redis: a.Stores.Answers, Share: share, Sealer: s, LocalBytes: local,
		Budget:   func() time.Duration { return a.global().RedisTimeout },
		MaxEntry: func() int { return a.global().Cache.MaxEntryBytes },
		Logger:   a.Logger, Registerer: a.Registerer,
	})
	if a.Stores.Responses != nil {
		a.Conversations = conversations.New(conversations.Options{
			Redis: a.Stores.Responses, Sealer: s, MaxBytes: a.File.Limits.BodyBytes,
			Epochs: func(tenant string) (e cache.Epochs, ok bool) {
				e, ok = a.Cache.Epochs(tenant, "")
				return e, ok && a.Cache.Hears()
			},
			Config: func() conversations.Config { return a.global().Responses },
			Logger: a.Logger, Registerer: a.Registerer,
		})
	}
	return nil
}

// makeEngines makes the client of the engines, and the prober of their capabilities, for all pools of routes that draft or
// have several targets.
func (a *App) makeEngines() (err error) {
	a.upstream = upstream.New(upstream.Options{
		Connect: func() time.Duration { return a.global().ConnectTimeout }, MaxBody: a.File.Limits.ResponseBytes,
	})
	a.prober, err = probe.New(probe.Options{
		Pools: a.probedPools(a.routing.Load()), Upstream: a.upstream, Mine: a.Fleet.Mine, Ready: a.Fleet.Ticked,
		Logger: a.Logger, Registerer: a.Registerer,
	})
	return err
}

// makeEvidence makes the store of audit results, which all replicas share, and the refits of the routes' scores.
func (a *App) makeEvidence() error {
	of := func(route string) *plan.Risk { return &a.live(route).Tiers.Risk }
	a.Evidence = evidence.New(evidence.Options{
		Redis: a.Stores.Control, Logger: a.Logger, Registerer: a.Registerer,
		Rule:      func(route string) risk.Rule { return of(route).Rule },
		Stale:     func(route string) time.Duration { return of(route).MaxStaleness },
		Warmup:    func(route string) time.Duration { return of(route).WarmupDuration },
		Economics: a.economics,
	})
	a.refits = refit.New(refit.Options{
		Book: a.Evidence, Rules: a.refitRules, Mine: a.Fleet.Mine, Logger: a.Logger, Registerer: a.Registerer,
	})
	return nil
}

// makeTracer makes the exporter to a collector, if the file names one.
func (a *App) makeTracer() error {
	t := a.File.Tracing
	if t.OTLP == "" {
		return nil
	}
	headers, err := collectorHeaders(t.HeadersFile)
	if err != nil {
		return err
	}
	a.tracer, err = tracing.New(tracing.Options{
		URL: t.OTLP, Sample: t.Sample, Headers: headers, Version: a.Version,
		Model:  func(pool string) string { return a.file().Pools[pool].Model },
		Logger: a.Logger, Registerer: a.Registerer,
	})
	return err
}

// makeCascade makes the routes and the cascade, and registers the metrics of the expected savings of drafts.
func (a *App) makeCascade() error {
	a.cascade = tiers.New(tiers.Options{
		Routes: a.tierRoutes(a.routing.Load()), Upstream: a.upstream, Breaker: permits{a.Breakers}, Queue: a, MaxBody: a.File.Limits.ResponseBytes,
		World: world.System{}, Random: func(string, tiers.Purpose) float64 { return rand.Float64() },
		Registerer: a.Registerer, Capabilities: a.prober.Capabilities,
		Evidence: a.Evidence, AuditsAll: a.refits.Collects, Replicas: a.Fleet.Replicas,
	})
	a.register(economy.NewCollector(a.cascade.CostStatistics(), a.economyRoutes))
	return nil
}

// makeIdentity makes the resolver of callers and notes warnings about the configuration. For the admin listener, if there is
// one, it reads the operators' tokens, and reloads them.
func (a *App) makeIdentity() (err error) {
	if a.identity, err = resolver(a.File, a.files, func() []string { return a.file().Unpriced() }); err != nil {
		return err
	}
	a.setWarnings(a.routing.Load(), &routing{})
	if a.Admin == "" || a.Tokens == nil && a.File.AdminTokensFile == "" {
		return nil
	}
	a.operators = &gateway.Operators{}
	if a.Tokens != nil {
		return a.operators.Apply([][]byte{a.Tokens})
	}
	return a.files.Add(adminTokensFile(a.File, a.operators.Apply))
}

// makeListeners reads the certificates of the listeners, and reloads them.
func (a *App) makeListeners() (err error) {
	if a.listeners.public, err = listenerTLS("tls", a.File.TLS, a.files, a.listeners.expiry); err != nil || a.Admin == "" {
		return err
	}
	a.listeners.admin, err = listenerTLS("admin_tls", a.File.AdminTLS, a.files, a.listeners.expiry)
	return err
}

// makeGateway makes the HTTP surface, and the console of a replica with an admin listener and metrics.
func (a *App) makeGateway() (err error) {
	f := a.File
	o := gateway.Options{
		Version: a.Version, Listen: f.Listen, Listener: a.Listener, TLS: a.listeners.public, Admin: a.Admin, AdminTLS: a.listeners.admin,
		Cascade: a.cascade, Identity: a.identity, Settings: a.Settings, Ledger: a.Ledger,
		Cache: a.Cache, Generations: a.Generations, Conversations: a.Conversations, Tracer: a.tracer, Salt: a.salt, Forward: f.Passthrough,
		Replica: a, Evidence: a.Evidence, Refits: a.refits, Operators: a.operators, Gatherer: a.Gatherer,
		Limits: a.clientLimits(), Scan: openai.Limits{Allow: func(route string) []string { return a.routing.Load().routes[route].AllowFields }},
		Drain:  gateway.Drain{Delay: f.Drain.Delay, Grace: f.Drain.Grace},
		Logger: a.Logger, Registerer: a.Registerer,
	}
	if a.Admin != "" && a.Gatherer != nil {
		a.console = console.New(console.Options{Gatherer: a.Gatherer, State: a.consoleState})
		o.Console = a.console.Handler()
	}
	a.gateway, err = gateway.New(o)
	return err
}

// consoleState is what the console shows in addition to metrics.
func (a *App) consoleState() console.ReplicaState {
	shed := a.global().Admission
	return console.ReplicaState{
		Replicas:       a.Fleet.Replicas(),
		ShedThresholds: map[string]float64{"low": shed.Threshold[identity.Low], "normal": shed.Threshold[identity.Normal], "high": shed.Threshold[identity.High]},
	}
}

const (
	// reservedFiles are not available to clients: they are for the admin listener, Redis, scrapes and logs.
	reservedFiles = 384
	// minConns is used if the process may open hardly any files.
	minConns = 32
	// connBytes is the memory of an idle connection without TLS: 8 KiB of stack and 11 KiB of buffers and tables,
	// measured with 7,250 of them.
	connBytes = 20 << 10
)

// clientLimits bounds what clients may take of this process.
func (a *App) clientLimits() gateway.Limits {
	l := a.File.Limits
	opened := 1 << 30 // very many if the system does not say
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		opened = int(min(limit.Cur, 1<<30))
	}
	conns := l.Connections
	if most := maxConns(opened, debug.SetMemoryLimit(-1)); conns > most {
		line := a.Logger.Warn()
		if conns == config.DefaultConnections { // nobody asked for so many
			line = a.Logger.Info()
		}
		line.Int("limits.connections", conns).Int("most", most).Msg("fewer connections are accepted: the process may not open as many files (ulimit -n), or has not the memory")
		conns = most
	}
	return gateway.Limits{Body: l.BodyBytes, Header: int(l.HeaderBytes), InFlight: l.InFlight, Conns: conns, Bodies: a.MaxBodyBytes}
}

// maxConns is how many client connections a process can hold with this limit of open files and of memory in bytes. Each of
// them may need one more to a backend, and idle ones take at most half of the memory.
func maxConns(files int, memory int64) int {
	return max(minConns, min((files-reservedFiles)/2, int(memory/2/connBytes)))
}

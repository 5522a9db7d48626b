package main

import (
	"context"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/console"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/gateway/operator"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/gateway/tracing"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/kvevents"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/upstream"
)

// parts are what a replica is built from, beside its configuration.
type parts struct {
	file       *config.File
	redis      redis.UniversalClient // nil: no shared state
	lookups    redis.UniversalClient // of what requests wait for; nil where redis is
	answers    answers               // of the cache
	writer     redis.UniversalClient // of operators who change settings; nil: nobody does here
	redisName  string                // for the log
	passwords  passwords             // that connections to Redis show
	listener   net.Listener          // instead of file.Listen
	admin      string                // "" is none
	tokens     []byte                // of operators, instead of file.AdminTokensFile
	bodies     int64                 // bytes that request bodies may take; 0 is the default
	log        zerolog.Logger
	registerer prometheus.Registerer
	gatherer   prometheus.Gatherer
}

// replica is one gateway with what it is made of.
type replica struct {
	parts
	files       *reload.Watcher
	warnings    []string // of what the configuration asks for and does not get, or leaves open
	settings    *settings.Watcher
	breakers    *breaker.Set
	pools       map[string]*pool.Pool
	events      *kvevents.Index     // nil where no pool has one
	indexes     map[string]*kvIndex // by pool, where it has one
	fleet       *fleet.Fleet
	members     map[string]*member // by pool
	lines       *admission.Lines
	limiter     *limits.Limiter
	cache       *cache.Store
	generations *cache.Generations
	salt        func(tenant string) string
	prober      *probe.Prober
	evidence    *evidence.Book
	risks       *riskSource
	tracer      *tracing.Tracer // nil where nothing is traced
	cascade     *tiers.Cascade
	console     *console.Console // nil is none
	operators   *operator.Set    // nil: no tokens are configured
	gateway     *gateway.Gateway
}

// assemble wires one replica. Nothing runs before the gateway's Start, but the
// operator's settings are read once, so that the first request obeys them.
func assemble(ctx context.Context, p parts) (*replica, error) {
	r := &replica{parts: p, pools: make(map[string]*pool.Pool, len(p.file.Pools)), indexes: map[string]*kvIndex{}}
	r.files = reload.New(reload.Options{Logger: p.log, Registerer: p.registerer})
	for _, f := range p.passwords.files() {
		if err := r.files.Add(f); err != nil {
			return nil, err
		}
	}
	var models []string
	for _, rt := range p.file.Routes {
		models = append(models, rt.Model)
	}
	r.settings = settings.New(settings.Options{
		Redis: p.redis, Routes: models, Registerer: p.registerer,
		Logger: p.log.With().Str("redis", p.redisName).Logger(),
	})
	_ = r.settings.Poll(ctx) // logs a failure itself, and tries again every second
	r.makeBreakers()
	r.makeLines()
	if err := r.makeFleet(); err != nil {
		return nil, err
	}
	if err := r.makePools(); err != nil {
		return nil, err
	}
	r.makeLimiter()
	if err := r.makeCache(); err != nil {
		return nil, err
	}
	if err := r.makeProber(); err != nil {
		return nil, err
	}
	r.makeEvidence()
	if err := r.makeTracer(); err != nil {
		return nil, err
	}
	cascade, err := r.makeCascade()
	if err != nil {
		return nil, err
	}
	r.cascade = cascade
	r.economics(cascade)
	who, err := resolver(p.file, r.files)
	if err != nil {
		return nil, err
	}
	r.warn(who.Tenants())
	if err := r.makeOperators(); err != nil {
		return nil, err
	}
	r.makeConsole()
	o := r.gatewayOptions(cascade, who, models)
	if o.Limits, err = clientLimits(p.file, p.log); err != nil {
		return nil, err
	}
	o.Limits.Bodies = p.bodies
	r.gateway, err = gateway.New(o)
	return r, err
}

// warn notes what operators should know of the file, and tells it to the log.
func (r *replica) warn(tenants []identity.Tenant) {
	r.warnings = warnings(r.file, tenants)
	for _, w := range r.warnings {
		r.log.Warn().Msg(w)
	}
}

func (r *replica) makePools() error {
	for name, def := range r.file.Pools {
		p, err := pool.New(pool.Options{
			Name: name, Model: def.Model, Backends: def.Backends, Discover: def.Discover, USDPerHour: def.USDPerHour,
			Priorities: def.Scheduler == config.SchedulerPriority,
			Config:     func() choose.Config { return r.settings.Snapshot().Global().Pool },
			Pressure:   func() pressure.Config { return r.settings.Snapshot().Global().Pressure },
			Open:       func(backend string) bool { return r.breakers.Open(name, backend) },
			Shut:       func(backend string) bool { return r.breakers.Shut(name, backend) },
			Ramp:       func(backend string) float64 { return r.breakers.Ramp(name, backend) },
			Fleet:      r.fleet,
			OnCapacity: func() { r.lines.Wake(name) },
			Index:      r.indexOf(name, def.KVEvents),
			Logger:     r.log, Registerer: r.registerer,
		})
		if err != nil {
			return err
		}
		r.pools[name], r.members[name].Pool = p, p
	}
	return nil
}

func (r *replica) makeCascade() (*tiers.Cascade, error) {
	var routes []tiers.Route
	for _, def := range r.file.Routes {
		routes = append(routes, tiers.Route{
			Model: def.Model, Draft: r.pools[def.Draft], Target: r.pools[def.Target], SameTokenizer: def.SameTokenizer,
			Config: func() plan.Config { return r.settings.Snapshot().Route(def.Model).Tiers },
			Prices: routePrices(r.file, def, r.pools),
		})
	}
	engines := upstream.New(upstream.Options{
		Dial: func() upstream.Dial { return r.settings.Snapshot().Global().Dial }, MaxBody: r.file.Limits.ResponseBytes,
	})
	return tiers.New(tiers.Options{
		Routes: routes, Upstream: engines, Breaker: permits{r.breakers}, Queue: r, MaxBody: r.file.Limits.ResponseBytes, Registerer: r.registerer,
		Window: engines.Window, Cards: r.prober.Card,
		Evidence: ledger{r.evidence}, Maps: r.calibrated, Replicas: r.fleet.Known, Short: r.shortOf,
	})
}

func (r *replica) gatewayOptions(cascade *tiers.Cascade, who *identity.Resolver, models []string) gateway.Options {
	f := r.file
	o := gateway.Options{
		Listen: f.Listen, Listener: r.listener, Admin: r.admin, Operators: r.operators, Desk: r.desk(), Tenants: func() []gateway.TenantView { return tenantViews(who) },
		Cascade: cascade, Forward: f.Passthrough, Identity: who, Limiter: r.limiter,
		Routes: r.routeStates, Lost: func() int { return len(r.settings.Lost()) }, Rung: func() string { return r.fleet.Mode().String() }, Fleet: operators{r}, Inside: inside{r, time.Now()}, Risk: r.risks.views,
		Timeouts:  r.timeouts,
		HighShare: func() float64 { return r.settings.Snapshot().Global().Limit.HighShare }, ReceiptShare: func() float64 { return r.settings.Snapshot().Global().Receipts.LogShare },
		Cache: r.cache, Generations: r.generations, Salt: r.salt, CacheConfig: r.cacheConfig, Served: r.served, Purge: r.purger(),
		Allow:  allowedFields(f.Routes),
		Drain:  gateway.Drain{Delay: f.Drain.Delay, Grace: f.Drain.Grace},
		Logger: r.log, Registerer: r.registerer, Gatherer: r.gatherer,
		Loops: []gateway.Loop{
			{Name: "files", Run: r.files.Run},
			{Name: "settings", Run: r.settings.Run},
			{Name: "cascade", Run: cascade.Run},
			{Name: "probe", Run: r.prober.Run},
			{Name: "evidence", Run: r.evidence.Run},
			{Name: "states of the evidence", Run: r.risks.Run},
			{Name: "breakers", Run: r.runBreakers},
			{Name: "fleet", Run: r.fleet.Run},
			{Name: "limits", Run: r.limiter.Run},
			{Name: "lines", Run: r.lines.Run},
			{Name: "cache", Run: r.cache.Run},
			{Name: "requests under way", Run: r.generations.Run},
		},
	}
	if r.console != nil {
		o.Console = r.console.Handler()
		o.Loops = append(o.Loops, gateway.Loop{Name: "console", Run: r.console.Run})
	}
	if r.operators != nil {
		o.Loops = append(o.Loops, gateway.Loop{Name: "sessions", Run: r.operators.Run})
	}
	r.trace(&o)
	for _, m := range models {
		o.Models = append(o.Models, gateway.Model{ID: m})
	}
	for name, p := range r.pools {
		o.Loops = append(o.Loops, gateway.Loop{Name: "pool " + name, Run: p.Run})
		if x := r.indexes[name]; x != nil {
			o.Loops = append(o.Loops, gateway.Loop{Name: "KV index " + name, Run: func(ctx context.Context) error { return x.run(ctx, p) }})
		}
	}
	return o
}

// allowedFields tells what each route lists under allow_fields.
func allowedFields(routes []config.Route) func(route string) []string {
	allow := make(map[string][]string, len(routes))
	for _, def := range routes {
		allow[def.Model] = def.AllowFields
	}
	return func(route string) []string { return allow[route] }
}

// reaches are what a route's pools can take: drafts go only where they need not wait. Without a draft pool
// the draft's is the target's.
func reaches(draft, target *pool.Pool) (forDrafts, forTarget pool.Reach) {
	forTarget = target.Reach()
	if draft == nil {
		return forTarget, forTarget
	}
	return draft.ReachSpare(), forTarget
}

// routeStates tell how each route stands.
func (r *replica) routeStates() []gateway.RouteState {
	out := make([]gateway.RouteState, 0, len(r.file.Routes))
	for _, def := range r.file.Routes {
		draft, target := reaches(r.pools[def.Draft], r.pools[def.Target])
		rt, err := r.cascade.Route(def.Model)
		out = append(out, gateway.RouteStateOf(def.Model, draft, target, err == nil && r.cascade.DraftsAlone(rt)))
	}
	return out
}

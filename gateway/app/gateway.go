package app

import (
	"context"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
)

// makeGateway makes the HTTP surface, and gives it the background tasks of all components.
func (a *App) makeGateway() error {
	clients, err := clientLimits(a.Options.File, a.Options.Logger)
	if err != nil {
		return err
	}
	clients.Bodies = a.Options.MaxBodyBytes
	o := a.serving()
	a.observing(&o)
	o.Limits, o.Background = clients, a.loops()
	a.gateway, err = gateway.New(o)
	return err
}

// serving returns the gateway's options for client requests.
func (a *App) serving() gateway.Options {
	f := a.Options.File
	o := gateway.Options{
		Listen: f.Listen, Listener: a.Options.Listener,
		Cascade: a.cascade, Forward: f.Passthrough, Identity: a.identity, Limiter: a.Limiter,
		HighShare: func() float64 { return a.Settings.Snapshot().Global().Limit.HighPriorityShare },
		Timeouts:  a.timeouts,
		Allow:     allowedFields(f.Routes),
		Cache:     a.Cache, CacheConfig: a.cacheConfig, ServedModels: a.served, Generations: a.Generations, Salt: a.salt,
		Drain: gateway.Drain{Delay: f.Drain.Delay, Grace: f.Drain.Grace},
	}
	for _, name := range a.routes() {
		o.Models = append(o.Models, gateway.Model{ID: name})
	}
	return o
}

// observing adds the operators' options: admin listener, log and traces.
func (a *App) observing(o *gateway.Options) {
	o.Admin, o.Operators, o.SettingsEditor = a.Options.Admin, a.Operators, a.settingsEditor()
	o.Routes, o.Fleet, o.Inspector = a.RouteStates, backendAdmin{a}, inspector{a}
	o.Tenants = func() []gateway.TenantView { return tenantViews(a.identity) }
	o.Usage = a.usage
	o.LostSettings = func() int { return len(a.Settings.Lost()) }
	o.RedisLevel = func() string { return a.Fleet.Mode().String() }
	o.Risk, o.RiskFrontiers, o.Refits, o.Purge = a.risks.Views, a.risks.Frontiers, a.refitViews, a.Purger()
	o.ReceiptShare = func() float64 { return a.Settings.Snapshot().Global().ReceiptLog.LogShare }
	o.Logger, o.Registerer, o.Gatherer = a.Options.Logger, a.Options.Registerer, a.Options.Gatherer
	if a.console != nil {
		o.Console = a.console.Handler()
	}
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
}

// loops are the background tasks, by their names in the log.
func (a *App) loops() []gateway.BackgroundTask {
	loops := []gateway.BackgroundTask{
		{Name: "files", Run: a.files.Run},
		{Name: "settings", Run: a.Settings.Run},
		{Name: "cascade", Run: a.cascade.Run},
		{Name: "engine connections", Run: a.upstream.Run},
		{Name: "probe", Run: a.prober.Run},
		{Name: "evidence", Run: a.evidence.Run},
		{Name: "states of the evidence", Run: a.risks.Run},
		{Name: "refits", Run: a.refits.Run},
		{Name: "breakers", Run: a.runBreakers},
		{Name: "fleet", Run: a.Fleet.Run},
		{Name: "limits", Run: a.Limiter.Run},
		{Name: "usage", Run: a.usage.Run},
		{Name: "lines", Run: a.queues.Run},
		{Name: "cache", Run: a.Cache.Run},
		{Name: "requests under way", Run: a.Generations.Run},
	}
	if a.console != nil {
		loops = append(loops, gateway.BackgroundTask{Name: "console", Run: a.console.Run})
	}
	if a.Operators != nil {
		loops = append(loops, gateway.BackgroundTask{Name: "sessions", Run: a.Operators.Run})
	}
	if a.tracer != nil {
		loops = append(loops, gateway.BackgroundTask{Name: "traces", Run: a.tracer.Run})
	}
	for name, p := range a.Pools {
		loops = append(loops, gateway.BackgroundTask{Name: "pool " + name, Run: p.Run})
		if x := a.indexes[name]; x != nil {
			loops = append(loops, gateway.BackgroundTask{Name: "KV index " + name, Run: func(ctx context.Context) error { return x.run(ctx, p) }})
		}
	}
	return loops
}

// timeouts returns the timeouts of a route's clients.
func (a *App) timeouts(route string) gateway.Timeouts {
	return gateway.Timeouts(a.Settings.Snapshot().Route(route).Client)
}

// allowedFields returns each route's allow_fields.
func allowedFields(routes []config.Route) func(route string) []string {
	allow := make(map[string][]string, len(routes))
	for _, def := range routes {
		allow[def.Model] = def.AllowFields
	}
	return func(route string) []string { return allow[route] }
}

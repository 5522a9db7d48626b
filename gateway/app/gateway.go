package app

import (
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
)

// makeGateway makes the HTTP surface.
func (a *App) makeGateway() (err error) {
	clients := clientLimits(a.Options.File, a.Options.Logger)
	clients.Bodies = a.Options.MaxBodyBytes
	o := a.serving()
	a.observing(&o)
	o.Limits = clients
	a.gateway, err = gateway.New(o)
	return err
}

// serving returns the gateway's options for client requests.
func (a *App) serving() gateway.Options {
	f := a.Options.File
	o := gateway.Options{
		Version: a.Options.Version, Listen: f.Listen, Listener: a.Options.Listener, TLS: a.listeners.public,
		Cascade: a.cascade, Forward: f.Passthrough, Identity: a.identity, Ledger: a.Ledger,
		HighShare:     func() float64 { return a.Settings.Snapshot().Global().Limit.HighPriorityShare },
		Timeouts:      a.timeouts,
		Allow:         func(route string) []string { return a.routing.Load().routes[route].AllowFields },
		Models:        a.models,
		Conversations: a.Conversations,
		Cache:         a.Cache, CacheConfig: a.cacheConfig, Generations: a.Generations, Salt: a.salt,
		Drain: gateway.Drain{Delay: f.Drain.Delay, Grace: f.Drain.Grace},
	}
	return o
}

// models returns the models that clients may ask for.
func (a *App) models() []gateway.Model {
	var out []gateway.Model
	for _, def := range a.file().Routes {
		m := gateway.Model{ID: def.Model}
		if is := a.prober.Capabilities(def.Target); is != nil {
			m.Window = is.Window
		}
		out = append(out, m)
	}
	return out
}

// observing adds the operators' options: admin listener, log and traces.
func (a *App) observing(o *gateway.Options) {
	o.Admin, o.AdminTLS, o.Operators, o.SettingsEditor = a.Options.Admin, a.listeners.admin, a.Operators, a.settingsEditor()
	o.Routes, o.Fleet, o.Inspector = a.RouteStates, backendAdmin{a}, inspector{a}
	o.Tenants = func() []gateway.TenantView { return a.tenantViews() }
	o.LostSettings = func() int { return len(a.Settings.Lost()) }
	o.RedisLevel = func() string { return a.Fleet.Mode().String() }
	o.Risk, o.RiskFrontiers, o.Refits, o.Purge, o.Reload = a.risks.Summaries, a.risks.Frontiers, a.refitViews, a.Purger(), a.Reload
	o.ReceiptShare = func() float64 { return a.Settings.Snapshot().Global().ReceiptLog.LogShare }
	o.Logger, o.Registerer, o.Gatherer = a.Options.Logger, a.Options.Registerer, a.Options.Gatherer
	if a.console != nil {
		o.Console = a.console.Handler()
	}
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
}

// timeouts returns the timeouts of a route's clients.
func (a *App) timeouts(route string) gateway.Timeouts {
	return gateway.Timeouts(a.Settings.Snapshot().Route(route).Client)
}

// settingsEditor returns what makes this replica's editor, nil if no Redis has settings. A reload changes the routes that may
// have settings.
func (a *App) settingsEditor() func() gateway.SettingsEditor {
	if a.Options.Stores.Settings == nil {
		return nil
	}
	return func() gateway.SettingsEditor { return settings.NewStore(a.Options.Stores.Settings, a.routes()) }
}

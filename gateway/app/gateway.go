package app

import (
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/openai"
)

// makeGateway makes the HTTP surface.
func (a *App) makeGateway() (err error) {
	f := a.Options.File
	limits := clientLimits(f, a.Options.Logger)
	limits.Bodies = a.Options.MaxBodyBytes
	o := gateway.Options{
		Version: a.Options.Version, Listen: f.Listen, Listener: a.Options.Listener, TLS: a.listeners.public,
		Admin: a.Options.Admin, AdminTLS: a.listeners.admin,
		Cascade: a.cascade, Identity: a.identity, Settings: a.Settings, Ledger: a.Ledger,
		Cache: a.Cache, Generations: a.Generations, Conversations: a.Conversations, Salt: a.salt, Forward: f.Passthrough,
		Replica: a, Fleet: backendAdmin{a}, Risk: evidenceShown{a.evidence, a}, Operators: a.Operators, Gatherer: a.Options.Gatherer,
		Limits: limits, Scan: openai.Limits{Allow: func(route string) []string { return a.routing.Load().routes[route].AllowFields }},
		Drain:  gateway.Drain{Delay: f.Drain.Delay, Grace: f.Drain.Grace},
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	}
	if a.console != nil {
		o.Console = a.console.Handler()
	}
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
	a.gateway, err = gateway.New(o)
	return err
}

var _ gateway.Replica = (*App)(nil)

// Health tells what can be served now.
func (a *App) Health() gateway.Health {
	return gateway.Health{Routes: a.RouteStates(), Redis: a.Fleet.Mode().String(), LostSettings: len(a.Settings.Lost())}
}

// SettingsEditor returns this replica's editor, nil if no Redis has settings. A reload changes the routes that may have
// settings.
func (a *App) SettingsEditor() gateway.SettingsEditor {
	if a.Options.Stores.Settings == nil {
		return nil
	}
	return settings.NewStore(a.Options.Stores.Settings, a.routes())
}

// evidenceShown is what audits have shown, with the candidates for the scores.
type evidenceShown struct {
	*evidence.Store
	app *App
}

// Refits returns the candidates of all routes.
func (e evidenceShown) Refits() []gateway.RefitView { return e.app.refitViews() }

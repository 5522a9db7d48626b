package app

import (
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/budgets"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/limits"
	"github.com/foregate/foregate/gateway/usage"
)

// makeLimiter makes the limiter and the budgets of tenants, over all replicas of the fleet.
func (a *App) makeLimiter() {
	o := limits.Options{Redis: a.Options.Stores.Lookups, Replicas: a.Fleet.Replicas, Logger: a.Options.Logger, Registerer: a.Options.Registerer,
		Budget: func() time.Duration { return a.Settings.Snapshot().Global().RedisTimeout }}
	if o.Redis == nil {
		o.Redis = a.Options.Stores.Control
	}
	a.Limiter = limits.New(o)
	a.Budgets = budgets.New(budgets.Options{Redis: o.Redis, Replicas: o.Replicas, Budget: o.Budget, Logger: o.Logger, Registerer: o.Registerer})
}

// makeUsage makes the meter of what tenants use, over all replicas of the fleet.
func (a *App) makeUsage() {
	a.Usage = usage.New(usage.Options{
		Redis: a.Options.Stores.Control, Embedded: a.Options.Stores.Embedded != nil, Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	})
}

// clientLimits bounds what clients may take of this process.
func clientLimits(f *config.File, log zerolog.Logger) gateway.Limits {
	conns := f.Limits.Connections
	if most := maxConns(openFiles(), debug.SetMemoryLimit(-1)); conns > most {
		if conns != config.DefaultConnections { // the operator wanted more than the default
			log.Warn().Int("limits.connections", conns).Int("most", most).Msg("fewer connections are accepted: the process may not open as many files (ulimit -n), or has not the memory")
		}
		conns = most
	}
	return gateway.Limits{Body: f.Limits.BodyBytes, Header: int(f.Limits.HeaderBytes), InFlight: f.Limits.InFlight, Conns: conns}
}

package app

import (
	"runtime/debug"
	"slices"
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
		Budget: func() time.Duration { return a.Settings.Snapshot().Global().Limit.RedisTimeout }}
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
func clientLimits(f *config.File, log zerolog.Logger) (gateway.Limits, error) {
	balancers, err := networks("limits.balancers", f.Limits.Balancers)
	if err != nil {
		return gateway.Limits{}, err
	}
	proxies, err := networks("identity.trusted_proxies", f.Identity.TrustedProxies)
	if err != nil {
		return gateway.Limits{}, err
	}
	conns, perAddress, warning := connLimits(f.Limits, f.TLS.On(), openFiles(), debug.SetMemoryLimit(-1))
	if warning != "" {
		log.Warn().Msg(warning)
	}
	return gateway.Limits{
		Body: f.Limits.BodyBytes, Header: int(f.Limits.HeaderBytes), InFlight: f.Limits.InFlight,
		Conns: conns, ConnsPerAddress: perAddress, Balancers: slices.Concat(balancers, proxies),
	}, nil
}

package app

import (
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/ledger"
)

// makeLedger makes the ledger of tenants' limits, budgets and usage, over all replicas of the fleet.
func (a *App) makeLedger() {
	s := a.Options.Stores
	o := ledger.Options{
		Redis: s.Lookups, Background: s.Control, Embedded: s.Embedded != nil, Replicas: a.Fleet.Replicas,
		Budget: func() time.Duration { return a.Settings.Snapshot().Global().RedisTimeout },
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	}
	if o.Redis == nil {
		o.Redis = s.Control
	}
	a.Ledger = ledger.New(o)
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

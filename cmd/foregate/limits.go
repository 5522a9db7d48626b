package main

import (
	"time"

	"github.com/foregate/foregate/gateway/limits"
)

// makeLimiter holds tenants to their limits, over all replicas of the fleet.
func (r *replica) makeLimiter() {
	o := limits.Options{Redis: r.lookups, Replicas: r.fleet.Known, Logger: r.log, Registerer: r.registerer,
		Budget: func() time.Duration { return r.settings.Snapshot().Global().Limit.Budget }}
	if o.Redis == nil {
		o.Redis = r.redis
	}
	r.limiter = limits.New(o)
}

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/pool"
)

// makeLines has requests wait in turns for pools that are short of memory.
func (r *replica) makeLines() {
	r.lines = admission.NewLines(slices.Collect(maps.Keys(r.file.Pools)), r.registerer)
}

// Enter is [dispatch.Queue], by the settings of the request's route.
func (r *replica) Enter(ctx context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return r.lines.Enter(ctx, t.Pool, &admission.Waiter{
		Route: t.Route, Class: identity.Priority(t.Class), Tenant: t.Tenant, Tokens: t.Tokens,
		Config: r.settings.Snapshot().Route(t.Route).Admission,
		Waited: t.Waited, Now: t.NoWait, Must: t.MidStream, Try: try,
	})
}

// shedding are the classes that are shed now, by pool.
func (r *replica) shedding() map[string][]string {
	out := map[string][]string{}
	for name := range r.pools {
		for _, class := range r.lines.Shedding(name) {
			out[name] = append(out[name], class.String())
		}
	}
	return out
}

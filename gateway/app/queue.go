package app

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

// makeQueues makes the admission queues, in which requests wait for pools without free memory.
func (a *App) makeQueues() {
	a.queues = admission.NewQueues(slices.Collect(maps.Keys(a.Options.File.Pools)), a.Options.Registerer)
}

// Enter implements [dispatch.Queue], with the settings of the request's route.
func (a *App) Enter(ctx context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return a.queues.Enter(ctx, t.Pool, &admission.Ticket{
		Route: t.Route, Class: identity.Priority(t.Class), Tenant: t.Tenant, Tokens: t.Tokens,
		Config: a.Settings.Snapshot().Route(t.Route).Admission,
		Waited: t.Waited, NoWait: t.NoWait, MidStream: t.MidStream, Try: try,
	})
}

// Shedding returns the classes that are shed now, by pool.
func (a *App) Shedding() map[string][]string {
	out := map[string][]string{}
	for name := range a.routing.Load().pools {
		for _, class := range a.queues.Shedding(name) {
			out[name] = append(out[name], class.String())
		}
	}
	return out
}

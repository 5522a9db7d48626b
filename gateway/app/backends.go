package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/fleet"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

// permits adapts the breakers to the cascade.
type permits struct{ *breaker.Set }

// Allow implements [dispatch.Breaker].
func (p permits) Allow(pool, backend, tenant string) (dispatch.Permit, error) {
	permit, err := p.Set.Allow(pool, backend, tenant)
	if err != nil {
		return nil, err
	}
	return permit, nil
}

// outcome tells the breaker what the result of a call, or of a probe, says about its backend. A backend that refuses the
// probe's request (one token), because it is invalid or the backend is full, is alive.
func outcome(err error) breaker.Outcome {
	if probed, ok := errors.AsType[*pressure.StatusError](err); ok {
		switch {
		case errors.Is(err, pool.ErrWrongModel):
			return breaker.Unreachable // whatever it is asked
		case probed.Code == http.StatusTooManyRequests:
			return breaker.Backpressure
		case probed.Code < 500 && credentials.RefusedBy(probed.Code) == nil:
			return breaker.Success
		}
		return breaker.Fault
	}
	switch engine.Classify(err) {
	case engine.ClassSuccess:
		return breaker.Success
	case engine.ClassFault:
		if f, ok := errors.AsType[*engine.Failure](err); ok && (f.Kind == engine.Refused || f.Kind == engine.WrongModel && f.Status != http.StatusNotImplemented) {
			return breaker.Unreachable // whatever it is asked
		}
		return breaker.Fault
	case engine.ClassBusy:
		return breaker.Backpressure
	default:
		return breaker.Neutral
	}
}

// probe tests a backend whose breaker is open. outcome understands its error.
func (a *App) probe(ctx context.Context, name, backend string) error {
	p := a.Pool(name)
	if p == nil {
		return fmt.Errorf("no pool is named %q", name)
	}
	err := p.Probe(ctx, backend)
	if _, answered := errors.AsType[*pressure.StatusError](err); err == nil || answered {
		return err
	}
	kind := engine.Reset
	op, dialled := errors.AsType[*net.OpError](err)
	if _, dns := errors.AsType[*net.DNSError](err); dns || dialled && op.Op == "dial" {
		kind = engine.Refused
	}
	return &engine.Failure{Kind: kind, Pool: name, Backend: backend, Err: err}
}

// Enter implements [dispatch.Queue], with the settings of the request's route.
func (a *App) Enter(ctx context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return a.queues.Enter(ctx, t.Pool, &admission.Ticket{
		Route: t.Route, Class: identity.Priority(t.Class), Tenant: t.Tenant, Tokens: t.Tokens,
		Config: a.live(t.Route).Admission,
		Waited: t.Waited, NoWait: t.NoWait, MidStream: t.MidStream, Try: try,
	})
}

// Drain stops new work on a backend, on every replica that can be reached.
func (a *App) Drain(ctx context.Context, name, backend, why string, d time.Duration) error {
	p := a.Pool(name)
	if p == nil || !slices.Contains(backendIDs(p), backend) {
		return gateway.ErrUnknownBackend
	}
	return shared(a.Fleet.Drain(ctx, name, backend, why, d))
}

// Undrain ends a drain.
func (a *App) Undrain(ctx context.Context, name, backend string) error {
	if a.Pool(name) == nil {
		return gateway.ErrUnknownBackend
	}
	return shared(a.Fleet.Undrain(ctx, name, backend))
}

// shared is what the gateway is told of an order that is in force here, unless there are too many.
func shared(err error) error {
	if err == nil || errors.Is(err, fleet.ErrFull) {
		return err
	}
	return fmt.Errorf("%w: %w", gateway.ErrNotShared, err)
}

// Backends returns all backends of all pools.
func (a *App) Backends() []pool.Backend {
	var out []pool.Backend
	for _, p := range a.routing.Load().pools {
		out = append(out, p.Snapshot()...)
	}
	return out
}

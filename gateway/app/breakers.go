package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
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

// Outcome tells the breaker what the result of a call says about its backend.
func Outcome(err error) breaker.Outcome {
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

// probe tests a backend whose breaker is open. Outcome understands its error.
func (a *App) probe(ctx context.Context, name, backend string) error {
	p := a.Pool(name)
	if p == nil {
		return fmt.Errorf("no pool is named %q", name)
	}
	err := p.Probe(ctx, backend)
	if err == nil {
		return nil
	}
	return &engine.Failure{Kind: probeKind(err), Pool: name, Backend: backend, Err: err}
}

// probeKind maps a failed probe to a kind of failure. A backend that refuses the probe's request (one token),
// because it is invalid or the backend is full, is alive.
func probeKind(err error) engine.FailureKind {
	if status, ok := errors.AsType[*pressure.StatusError](err); ok {
		switch {
		case errors.Is(err, pool.ErrWrongModel):
			return engine.WrongModel
		case credentials.RefusedBy(status.Code) != nil:
			return engine.Unauthorized
		case status.Code == http.StatusTooManyRequests:
			return engine.Backpressure
		case status.Code >= 400 && status.Code < 500:
			return engine.Rejected
		}
		return engine.ServerError
	}
	if credentials.RefusalOf(err) != nil {
		return engine.Unauthorized
	}
	op, dialled := errors.AsType[*net.OpError](err)
	if _, dns := errors.AsType[*net.DNSError](err); dns || dialled && op.Op == "dial" {
		return engine.Refused
	}
	return engine.Reset
}

// Enter implements [dispatch.Queue], with the settings of the request's route.
func (a *App) Enter(ctx context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	return a.queues.Enter(ctx, t.Pool, &admission.Ticket{
		Route: t.Route, Class: identity.Priority(t.Class), Tenant: t.Tenant, Tokens: t.Tokens,
		Config: a.live(t.Route).Admission,
		Waited: t.Waited, NoWait: t.NoWait, MidStream: t.MidStream, Try: try,
	})
}

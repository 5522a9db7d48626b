package virtual

import (
	"errors"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
)

// breakers are a replica's, in virtual time. They share nothing with those of other replicas, and a
// backend that is due is tried by a request.
type breakers struct{ *breaker.Set }

var _ dispatch.Breaker = breakers{}

func (r *replica) newBreakers() breakers {
	l := r.lab
	return breakers{breaker.New(breaker.Options{
		Config: func() breaker.Config { return l.values.Breaker }, Classify: outcome, Now: l.clock.Now, Local: newWindow, Draw: r.spread,
	})}
}

// Allow implements [dispatch.Breaker].
func (b breakers) Allow(pool, backend, tenant string) (dispatch.Permit, error) {
	p, err := b.AllowFor(pool, backend, tenant)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// watch has a pool's picks go by its breakers.
func (b breakers) watch(name string, o *pool.Options) {
	o.Open = func(backend string) bool { return b.Open(name, backend) }
	o.Shut = func(backend string) bool { return b.Shut(name, backend) }
	o.Ramp = func(backend string) float64 { return b.Ramp(name, backend) }
}

// knows tells the breakers of a pool's backends.
func (b breakers) knows(p *pool.Pool) {
	var ids []string
	for _, s := range p.Snapshot() {
		ids = append(ids, s.ID)
	}
	b.Retain(p.Name(), ids)
}

// outcome tells a breaker what a call's end says of its backend, as the gateway does.
func outcome(err error) breaker.Outcome {
	switch engine.Classify(err) {
	case engine.ClassSuccess:
		return breaker.Success
	case engine.ClassBusy:
		return breaker.Backpressure
	case engine.ClassNeutral:
		return breaker.Neutral
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok && f.Kind == engine.Refused {
		return breaker.Unreachable
	}
	return breaker.Fault
}

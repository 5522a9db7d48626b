package virtual

import (
	"errors"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
)

// breakers are a replica's, in virtual time. They share nothing with those of other replicas, and a
// backend that is due is tried by a request.
type breakers struct {
	lab *lab
	set *machine.Set
}

var _ dispatch.Breaker = breakers{}

func (r *replica) newBreakers() breakers {
	l := r.lab
	return breakers{l, machine.NewSet(machine.SetOptions{Config: func() machine.Config { return l.values.Breaker }, Draw: r.spread})}
}

// Allow implements [dispatch.Breaker].
func (b breakers) Allow(pool, backend string) (dispatch.Permit, error) {
	p, err := b.set.Allow(pool, backend, b.lab.clock.Now())
	if err != nil {
		return nil, err
	}
	return permit{b.lab, p}, nil
}

// watch has a pool's picks go by its breakers.
func (b breakers) watch(name string, o *pool.Options) {
	now := b.lab.clock.Now
	o.Open = func(backend string) bool { return b.set.Open(name, backend, now()) }
	o.Shut = func(backend string) bool { return b.set.Shut(name, backend, now()) }
	o.Ramp = func(backend string) float64 { return b.set.Ramp(name, backend, now()) }
}

// knows tells the breakers of a pool's backends.
func (b breakers) knows(p *pool.Pool) {
	var ids []string
	for _, s := range p.Snapshot() {
		ids = append(ids, s.ID)
	}
	b.set.Retain(p.Name(), ids, b.lab.clock.Now())
}

type permit struct {
	lab    *lab
	permit *machine.Permit
}

// Report implements [dispatch.Permit].
func (p permit) Report(err error) { p.permit.Report(outcome(err), p.lab.clock.Now()) }

// outcome tells a breaker what a call's end says of its backend, as the gateway does.
func outcome(err error) machine.Outcome {
	switch engine.Classify(err) {
	case engine.ClassSuccess:
		return machine.Success
	case engine.ClassBusy:
		return machine.Backpressure
	case engine.ClassNeutral:
		return machine.Neutral
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok && f.Kind == engine.Refused {
		return machine.Unreachable
	}
	return machine.Fault
}

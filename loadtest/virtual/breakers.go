package virtual

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
)

// breakers are a replica's, in virtual time.
type breakers struct{ *breaker.Set }

var _ dispatch.Breaker = breakers{}

func (r *replica) newBreakers() breakers {
	l := r.lab
	return breakers{breaker.New(breaker.Options{
		Config: func() breaker.Config { return l.values.Breaker }, Classify: outcome, World: l.clock, Local: newWindow, Draw: r.spread,
		Replica: strconv.Itoa(r.index), Mine: r.owns, Wake: func() {}, // the next exchange is soon
		Probe: func(ctx context.Context, pool, backend string) error {
			return r.watchers[pool+"/"+backend].backend.Probe(ctx)
		},
	})}
}

// owns reports whether a replica tests the breakers of a name for all.
func (r *replica) owns(_, name string) bool {
	sum := 0
	for _, c := range name {
		sum += int(c)
	}
	return r.lab.redis.Local() || sum%len(r.lab.replicas) == r.index
}

// lookAfterBreakers tells them of restarts, as the gateway does.
func (r *replica) lookAfterBreakers() {
	for name, p := range r.pools {
		for _, b := range p.Snapshot() {
			k := breaker.Key{Pool: name, Backend: b.ID}
			if b.Life > r.lives[k] {
				r.breakers.Restarted(name, b.ID)
			}
			r.lives[k] = b.Life
		}
	}
	r.lab.clock.After(time.Second, r.lookAfterBreakers)
}

// tellBreakers exchanges what replicas tell each other of breakers: it is heard at the next exchange.
func (r *replica) tellBreakers() {
	l := r.lab
	interval, at := l.values.ScrapeInterval/2, l.clock.Now()
	for field, text := range r.breakers.Tell() {
		if l.redis.Away() {
			break
		}
		r.breakers.Take(field, text, 0)
		for _, other := range l.replicas {
			if other == r {
				continue
			}
			l.clock.After(interval, func() {
				if !l.redis.Away() {
					other.breakers.Take(field, text, l.clock.Now().Sub(at))
				}
			})
		}
	}
	l.clock.After(interval, r.tellBreakers)
}

// Allow implements [dispatch.Breaker].
func (b breakers) Allow(pool, backend, tenant string) (dispatch.Permit, error) {
	p, err := b.Set.Allow(pool, backend, tenant)
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

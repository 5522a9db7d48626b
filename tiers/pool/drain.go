package pool

import (
	"maps"
	"time"
)

// maxDrains bounds the drains that are kept for backends that are not in the pool yet.
const maxDrains = 4096

// redrain changes b's drains under the lock and logs a change. A backend that is undrained takes traffic gradually.
func (p *Pool) redrain(b *backend, change func()) {
	now := p.o.Now()
	var was, why string
	inflight := 0
	p.locked(func() {
		change()
		was, why, inflight = b.drained.lastLogged, b.drained.reason(now), b.account.All().Requests
		b.drained.lastLogged = why
		switch why {
		case was:
		case "":
			b.health.MarkStarted(now)
			b.metrics.drained.Set(0)
		default:
			b.metrics.drained.Set(1)
		}
	})
	if why != was {
		p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", inflight).Msg("backend's drain changed")
	}
}

// ReceiveDrains sets all drained backends of the fleet by id, with the reasons. It may name backends that are not in the
// pool yet. Backends that it does not name get requests again. It replaces drains that only this replica knew.
func (p *Pool) ReceiveDrains(drained map[string]string) {
	p.locked(func() {
		p.fleetDrains = maps.Clone(drained)
		for id := range drained {
			delete(p.ownDrains, id)
		}
	})
	for _, b := range *p.set.Load() {
		p.redrain(b, func() { b.drained.fleet, b.drained.here = drained[b.id], p.ownDrains[b.id] })
	}
}

// Drain gives a backend no new requests for d (0: until Undrain) and lets running requests finish. Only this replica
// knows, until the fleet tells it of the same drain. It reports whether the backend exists.
func (p *Pool) Drain(backend, why string, d time.Duration) bool {
	o := drainOrder{why: why}
	if d > 0 {
		o.until = p.o.Now().Add(d)
	}
	b := p.named(backend)
	if b == nil {
		return false
	}
	p.redrain(b, func() {
		if told, drained := p.fleetDrains[backend]; drained && told == why { // the fleet was faster
			return
		}
		if len(p.ownDrains) < maxDrains {
			p.ownDrains[backend] = o // kept, because the backend may leave and come back
		}
		b.drained.here = o
	})
	return true
}

// Undrain ends this replica's own Drain. It reports whether the backend gets requests now: not if the fleet holds it
// drained, or it does not exist.
func (p *Pool) Undrain(backend string) (undrained bool) {
	p.locked(func() { delete(p.ownDrains, backend) })
	if b := p.named(backend); b != nil {
		p.redrain(b, func() {
			b.drained.here = drainOrder{}
			undrained = b.drained.fleet == ""
		})
	}
	return undrained
}

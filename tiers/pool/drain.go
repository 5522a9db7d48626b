package pool

import (
	"maps"
	"time"
)

// maxDrains bounds the orders that a pool keeps for backends that may yet come.
const maxDrains = 4096

// redrain changes what is known of b's drain, under the lock, and logs it where that makes a
// difference, or where a drain has run out. A backend that has come back takes its turns gradually.
func (p *Pool) redrain(b *backend, change func()) {
	now := p.o.Now()
	var was, why string
	inflight := 0
	p.locked(func() {
		change()
		was, why, inflight = b.drained.told, b.drained.reason(now), b.account.All().Requests
		b.drained.told = why
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

// ReceiveDrains takes in which backends are drained, by id, and why: all of them, such as
// are to come among them. Those that are not named get requests again. What all know
// of a backend stands in the place of what only this replica was told.
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

// Drain gives a backend no new requests for d (0: until Undrain), and lets what runs
// there finish. Only this replica knows. It reports whether there is such a backend.
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
		if len(p.ownDrains) < maxDrains {
			p.ownDrains[backend] = o // it may leave and come back
		}
		b.drained.here = o
	})
	return true
}

// Undrain ends this replica's own Drain. It reports whether the backend gets requests
// now: not if all replicas hold it drained, or there is none such.
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

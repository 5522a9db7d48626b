package pool

import (
	"maps"
	"time"
)

// maxDrains bounds the own drains that are kept for backends that are not in the pool any more.
const maxDrains = 4096

// drainOrder is an instruction to drain a backend, which only this replica knows.
type drainOrder struct {
	why   string
	until time.Time // zero: no end
}

// drained returns why a backend gets no new requests, or "": by the fleet's word, or by this replica's alone while the
// others are unreachable. The caller holds mu.
func (p *Pool) drained(b *backend, now time.Time) string {
	if why := p.fleetDrains[b.id]; why != "" {
		return why
	}
	if o := p.ownDrains[b.id]; o.until.IsZero() || now.Before(o.until) {
		return o.why
	}
	return ""
}

// out reports whether a backend gets no new requests. The caller holds mu.
func (p *Pool) out(b *backend, now time.Time) bool {
	return b.down != nil || b.removed || p.drained(b, now) != ""
}

// setDrains changes the drains, and logs what that changes. A backend that is undrained takes traffic gradually.
func (p *Pool) setDrains(change func()) {
	p.locked(change)
	for _, b := range *p.set.Load() {
		p.noteDrain(b)
	}
}

// noteDrain notices that a backend was drained, or that its drain has ended.
func (p *Pool) noteDrain(b *backend) {
	now := p.o.Now()
	var was, why string
	inflight := 0
	p.locked(func() {
		was, why, inflight = b.lastDrain, p.drained(b, now), b.account.all.requests
		b.lastDrain = why
		if was != "" && why == "" {
			b.health.markStarted(now)
		}
	})
	if why != was {
		p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", inflight).Msg("backend's drain changed")
	}
}

// ReceiveDrains sets all drained backends of the fleet by id, with the reasons. It may name backends that are not in the
// pool yet. Backends that it does not name get requests again. It replaces drains that only this replica knew.
func (p *Pool) ReceiveDrains(drained map[string]string) {
	p.setDrains(func() {
		p.fleetDrains = maps.Clone(drained)
		for id := range drained {
			delete(p.ownDrains, id)
		}
	})
}

// Drain gives a backend no new requests for d (0: until Undrain) and lets running requests finish. Only this replica
// knows, until the fleet tells it of the same drain. It reports whether the backend exists.
func (p *Pool) Drain(backend, why string, d time.Duration) bool {
	o := drainOrder{why: why}
	if d > 0 {
		o.until = p.o.Now().Add(d)
	}
	if p.named(backend) == nil {
		return false
	}
	p.setDrains(func() {
		if len(p.ownDrains) >= maxDrains {
			maps.DeleteFunc(p.ownDrains, func(id string, _ drainOrder) bool { return p.byID[id] == nil })
		}
		if p.fleetDrains[backend] != why { // else the fleet was faster
			p.ownDrains[backend] = o // kept, because the backend may leave and come back
		}
	})
	return true
}

// Undrain ends this replica's own Drain. It reports whether the backend gets requests now: not if the fleet holds it
// drained, or it does not exist.
func (p *Pool) Undrain(backend string) (undrained bool) {
	p.setDrains(func() {
		delete(p.ownDrains, backend)
		undrained = p.byID[backend] != nil && p.fleetDrains[backend] == ""
	})
	return undrained
}

// fleetWait is longer than the fleet takes to tell a new pool of its drains.
const fleetWait = 5 * time.Second

// TakeDrains has the pool drain what another one does that it replaces. What the fleet holds drained is kept for some
// seconds, until the fleet says it again.
func (p *Pool) TakeDrains(from *Pool) {
	taken := map[string]drainOrder{}
	from.locked(func() {
		for id, why := range from.fleetDrains {
			taken[id] = drainOrder{why: why, until: p.o.Now().Add(fleetWait)}
		}
		maps.Copy(taken, from.ownDrains)
	})
	p.setDrains(func() { maps.Copy(p.ownDrains, taken) })
}

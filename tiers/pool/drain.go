package pool

import (
	"maps"
	"time"
)

// order is one to drain a backend.
type order struct {
	why   string
	until time.Time // zero is without end
}

// mostDrains bounds the orders that a pool keeps for backends that may yet come.
const mostDrains = 4096

// drains are why a backend gets no new requests: what all replicas know, and what only
// this one could be told because the others were out of reach.
type drains struct {
	fleet string
	here  order
	told  string // what was logged last
}

// why is "" when it is not drained.
func (d *drains) why(now time.Time) string {
	switch {
	case d.fleet != "":
		return d.fleet
	case d.here.why != "" && (d.here.until.IsZero() || now.Before(d.here.until)):
		return d.here.why
	}
	return ""
}

// HearDrains takes in which backends are drained, by id, and why: all of them, such as
// are to come among them. Those that are not named get requests again. What all know
// of a backend stands in the place of what only this replica was told.
func (p *Pool) HearDrains(drained map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fleetDrains = maps.Clone(drained)
	for id := range drained {
		delete(p.ownDrains, id)
	}
	for _, b := range *p.set.Load() {
		b.drained.fleet, b.drained.here = drained[b.id], p.ownDrains[b.id]
		p.drained(b)
	}
}

// Drain gives a backend no new requests for d (0: until Undrain), and lets what runs
// there finish. Only this replica knows. It reports whether there is such a backend.
func (p *Pool) Drain(backend, why string, d time.Duration) bool {
	o := order{why: why}
	if d > 0 {
		o.until = p.now().Add(d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.byID[backend]
	if b == nil {
		return false
	}
	if len(p.ownDrains) < mostDrains {
		p.ownDrains[backend] = o // it may leave and come back
	}
	b.drained.here = o
	p.drained(b)
	return true
}

// Undrain ends this replica's own Drain. It reports whether the backend gets requests
// now: not if all replicas hold it drained, or there is none such.
func (p *Pool) Undrain(backend string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ownDrains, backend)
	b := p.byID[backend]
	if b == nil {
		return false
	}
	b.drained.here = order{}
	p.drained(b)
	return b.drained.fleet == ""
}

// drained logs a change of b's drain; one that has come back takes its turns
// gradually. The caller holds mu.
func (p *Pool) drained(b *backend) {
	now := p.now()
	d := &b.drained
	why := d.why(now)
	if why == d.told {
		return
	}
	if why == "" {
		b.vitals.came(now)
		b.metrics.drained.Set(0)
	} else {
		b.metrics.drained.Set(1)
	}
	d.told = why
	p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", b.all.requests).Msg("backend's drain changed")
}

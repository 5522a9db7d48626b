package pool

import (
	"fmt"
	"maps"
	"time"
)

// SetBackends replaces the backends of a pool without discovery. A backend that stays keeps its state; requests in flight
// at one that goes continue. An error changes nothing. Only one SetBackends may run at a time.
func (p *Pool) SetBackends(backends []string) error {
	o := p.o
	o.Backends = backends
	urls, source, err := o.validate()
	switch {
	case err != nil:
		return fmt.Errorf("pool %q: %w", p.o.Name, err)
	case source != nil:
		return fmt.Errorf("pool %q: its backends are discovered", p.o.Name)
	}
	p.replace(urls)
	select {
	case p.changed <- struct{}{}:
	default: // Run has not looked yet
	}
	return nil
}

// SetPrice replaces the price of one backend, in USD per hour; 0 is unknown.
func (p *Pool) SetPrice(usdPerHour float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usdPerHour = usdPerHour
}

// ForgetMetrics drops the series of backends. It is called after Run has ended, because Run would create them again.
func (p *Pool) ForgetMetrics(which func(backend string) bool) {
	for _, b := range *p.set.Load() {
		if which(b.id) {
			p.metrics.forget(p.o.Name, b.id)
		}
	}
}

// Retire says that another pool has replaced this one, which only serves its last requests: what the new one knows better
// is no longer shown or logged.
func (p *Pool) Retire() { p.retired.Store(true) }

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
	p.locked(func() { maps.Copy(p.ownDrains, taken) })
	for _, b := range *p.set.Load() {
		p.redrain(b, func() { b.drained.here = taken[b.id] })
	}
}

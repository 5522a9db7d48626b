package pool

import "fmt"

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

package pool

// Usage is the mean KV usage of the backends that are up, as far as it is known: 0..1.
func (p *Pool) Usage() float64 {
	age, now := p.pressure().OrDefaults(), p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.meanNow(now, age).usage
}

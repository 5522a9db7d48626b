package pool

// queueShare is how many requests may wait, of those that run, where there are seats: with answers
// of some seconds a seat comes free for the last of them in about half a second.
const queueShare = 0.1

// Load is how full the backends that are up are in the mean, as far as it is known: the share of
// their KV caches in use, or 1 where requests queue for seats: more than one and a tenth of those
// that run, which is more than come between two steps. What comes now would wait behind them.
func (p *Pool) Load() float64 {
	age, now := p.pressure(), p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meanNow(now, age)
	if m.waiting > 1+queueShare*m.running {
		return 1
	}
	return m.usage
}

// UnitCosts are what a prompt token and a token of an answer cost on a busy backend of the
// pool, in USD, by what was learned: its price divided by what it makes. ok is false where
// the pool has no price, or too little was seen ([estimate.UnitCosts.PerToken]).
func (p *Pool) UnitCosts() (prefill, decode float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usdPerHour <= 0 {
		return 0, 0, false
	}
	return p.units.PerToken(p.usdPerHour / 3600)
}

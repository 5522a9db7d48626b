package pool

import "time"

// AssumedAnswer is how long an answer without a limit may become, as far as its price goes.
const AssumedAnswer = 4096

// External reports whether the backends are hosted: paid by the token, and not the operator's own. They are asked for
// nothing but answers, and told nothing but requests.
func (p *Pool) External() bool { return p.o.External }

// maxRatePause bounds how long a hosted backend is left alone at once: what it tells of its limits may be wrong.
const maxRatePause = time.Minute

// Pause says that a hosted backend wants no request for so long, by its limits of rates. Until then it counts as full.
func (l *Lease) Pause(d time.Duration) {
	p := l.pool
	if !p.o.External || d <= 0 {
		return
	}
	until := p.o.Now().Add(min(d, maxRatePause))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(l.backend.pausedUntil) {
		l.backend.pausedUntil = until
	}
}

// hosted sets a candidate's load where its memory is its provider's to care for: only the limits of rates count, as far as
// the provider has told them.
func (c *candidate) hosted(pausedUntil, now time.Time) {
	c.usageUnknown, c.usage, c.waiting, c.running = false, 0, 0, 0
	c.paused = max(pausedUntil.Sub(now), 0)
}

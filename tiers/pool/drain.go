package pool

import "time"

// drains are why a backend gets no new requests: what all replicas know, and what only
// this one could be told because the others were out of reach.
type drains struct {
	fleet string
	here  string
	until time.Time // of here; zero is without end
	told  string    // what was logged last
}

// why is "" when it is not drained.
func (d *drains) why(now time.Time) string {
	switch {
	case d.fleet != "":
		return d.fleet
	case d.here != "" && (d.until.IsZero() || now.Before(d.until)):
		return d.here
	}
	return ""
}

// HearDrains takes in which backends are drained, by id, and why: all of them. Those
// that are not named get requests again.
func (p *Pool) HearDrains(drained map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range *p.set.Load() {
		b.drained.fleet = drained[b.id]
		p.drained(b)
	}
}

// Drain gives a backend no new requests for d (0: until Undrain), and lets what runs
// there finish. Only this replica knows. It reports whether there is such a backend.
func (p *Pool) Drain(backend, why string, d time.Duration) bool {
	var until time.Time
	if d > 0 {
		until = p.now().Add(d)
	}
	return p.setDrain(backend, why, until)
}

// Undrain ends this replica's own Drain.
func (p *Pool) Undrain(backend string) bool { return p.setDrain(backend, "", time.Time{}) }

func (p *Pool) setDrain(backend, why string, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.byID[backend]
	if b == nil {
		return false
	}
	b.drained.here, b.drained.until = why, until
	p.drained(b)
	return true
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
	}
	d.told = why
	p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", b.all.requests).Msg("backend's drain changed")
}

package pool

import "maps"

// drained returns why a backend gets no new requests, or "". The caller holds mu.
func (p *Pool) drained(b *backend) string { return p.drains[b.id] }

// out reports whether a backend gets no new requests. The caller holds mu.
func (p *Pool) out(b *backend) bool {
	return b.down != nil || b.removed || p.drained(b) != ""
}

// noteDrain notices that a backend was drained, or that its drain has ended.
func (p *Pool) noteDrain(b *backend) {
	now := p.o.Now()
	var was, why string
	inflight := 0
	p.locked(func() {
		was, why, inflight = b.lastDrain, p.drained(b), b.account.all.requests
		b.lastDrain = why
		if was != "" && why == "" {
			b.health.markStarted(now)
		}
	})
	if why != was {
		p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", inflight).Msg("backend's drain changed")
	}
}

// ReceiveDrains sets all drained backends by id, with the reasons. It may name backends that are not in the pool yet. Backends
// that it does not name get requests again, gradually.
func (p *Pool) ReceiveDrains(drained map[string]string) {
	p.locked(func() { p.drains = maps.Clone(drained) })
	for _, b := range *p.set.Load() {
		p.noteDrain(b)
	}
}

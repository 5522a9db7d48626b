package pool

import (
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Fleet is the other replicas: what is to be told to them. What they tell comes by
// Hear, HearPlaced and HearDrains. Its methods must not block.
type Fleet interface {
	Mine(pool, backend string) bool                   // whether this replica reads the backend's metrics for all
	Publish(pool, backend string, r pressure.Reading) // a reading that was just taken
	Place(pool string, said []prefix.Placement)       // where prompts were sent; said is not kept
}

// Hear takes a reading in that another replica took; r.At is when, by the clock here.
// One that is not newer than what is known is ignored. It reports whether there is
// such a backend.
func (p *Pool) Hear(backend string, r pressure.Reading) bool {
	p.mu.Lock()
	b := p.byID[backend]
	if b == nil {
		p.mu.Unlock()
		return false
	}
	if !r.At.After(b.reading.At) {
		p.mu.Unlock()
		return true
	}
	p.mu.Unlock()
	p.taken(b, r)
	p.setUp(b, r.At)
	return true
}

// HearDrains takes in which backends are drained, by id, and why: all of them. Those
// that are not named get requests again.
func (p *Pool) HearDrains(drained map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range *p.set.Load() {
		p.drain(b, drained[b.id])
	}
}

// Drain gives a backend no new requests, and lets what runs there finish; why "" ends
// it. It reports whether there is such a backend.
func (p *Pool) Drain(backend, why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.byID[backend]
	if b == nil {
		return false
	}
	p.drain(b, why)
	return true
}

// drain is told again and again; the caller holds mu.
func (p *Pool) drain(b *backend, why string) {
	if b.drained == why {
		return
	}
	if b.drained != "" && why == "" {
		b.vitals.came(p.now())
	}
	b.drained = why
	p.log.Info().Str("backend", b.id).Str("why", why).Bool("drained", why != "").Int("inflight", b.all.requests).Msg("backend's drain changed")
}

// Observe stores what somebody else found now, as if a scrape had just brought it: a
// reading, which also says that the backend is up, or with err a refused
// connection, which says that it is down. It reports whether there is such a
// backend. Who observes does not Run.
func (p *Pool) Observe(backend string, r pressure.Reading, err error) bool {
	p.mu.Lock()
	b := p.byID[backend]
	p.mu.Unlock()
	if b == nil {
		return false
	}
	if err != nil {
		p.setDown(b, err)
		return true
	}
	p.taken(b, r)
	p.setUp(b, p.now())
	return true
}

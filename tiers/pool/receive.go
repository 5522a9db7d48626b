package pool

import (
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// ReceiveReading stores a reading of another replica; r.At is in this replica's clock. A reading that is not newer is
// ignored. It does not say whether this replica can reach the backend. It reports whether the backend exists.
func (p *Pool) ReceiveReading(id string, r pressure.Reading) bool {
	var b *backend
	news := false
	p.locked(func() {
		b = p.byID[id]
		news = b != nil && r.At.After(b.reading.At)
	})
	if news {
		p.storeReading(b, r)
	}
	return b != nil
}

// Observe stores a reading or a refused connection (err) as if a scrape had just found it. A reading also says that the
// backend is up. It reports whether the backend exists. A pool with Observe does not use Run.
func (p *Pool) Observe(backend string, r pressure.Reading, err error) bool {
	b := p.named(backend)
	if b == nil {
		return false
	}
	if err != nil {
		p.setDown(b, err)
		return true
	}
	p.storeReading(b, r)
	p.setUp(b, p.o.Now())
	return true
}

// ReceivePlacements stores where other replicas sent prompts.
func (p *Pool) ReceivePlacements(placements []prefix.Placement) {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range placements {
		if b := p.byID[s.Backend]; b != nil {
			p.warm.Merge(s, b.number, now)
		}
	}
}

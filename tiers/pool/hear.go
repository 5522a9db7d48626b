package pool

import (
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// ReceiveReading takes a reading in that another replica took; r.At is when, by the clock here.
// One that is not newer than what is known is ignored. It says nothing of whether this
// replica can reach the backend. It reports whether there is such a backend.
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

// Observe stores what somebody else found now, as if a scrape had just brought it: a
// reading, which also says that the backend is up, or with err a refused
// connection, which says that it is down. It reports whether there is such a
// backend. Who observes does not Run.
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

// ReceivePlacements takes in where other replicas sent prompts.
func (p *Pool) ReceivePlacements(said []prefix.Placement) {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range said {
		if b := p.byID[s.Backend]; b != nil {
			p.warm.Merge(s, b.number, now)
		}
	}
}

package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Fleet is the other replicas: what is to be told to them. What they tell comes by
// Hear, HearPlaced and HearDrains. Its methods must not block.
type Fleet interface {
	Mine(pool, backend string) bool                   // whether this replica reads the backend's metrics for all
	Publish(pool, backend string, r pressure.Reading) // a reading that was just taken
	Place(pool string, said []prefix.Placement)       // where prompts were sent; said is not kept
	Sharing() bool                                    // whether what is told is heard by now
}

// Join tells the pool of the other replicas. It is called before the first pick, and
// not at all where there are none: then this replica reads every backend itself.
func (p *Pool) Join(f Fleet) { p.fleet = f }

// Hear takes a reading in that another replica took; r.At is when, by the clock here.
// One that is not newer than what is known is ignored. It says nothing of whether this
// replica can reach the backend. It reports whether there is such a backend.
func (p *Pool) Hear(id string, r pressure.Reading) bool {
	var b *backend
	news := false
	p.locked(func() {
		b = p.byID[id]
		news = b != nil && r.At.After(b.reading.At)
	})
	if news {
		p.taken(b, r)
	}
	return b != nil
}

// Looks reports whether this replica has to look at a backend's metrics itself: because
// that is its part (mine), because the backend is down for it, or because nothing was
// heard of it for too long, and the last look, in vain, is Again ago.
func (p *Pool) Looks(backend string, mine bool, vain time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.byID[backend]
	if b == nil {
		return false
	}
	now := p.now()
	missing := now.Sub(b.reading.At) > p.overdue()
	return mine || b.down != nil || missing && now.Sub(vain) >= Again
}

// overdue is how old a reading of another replica's may be.
func (p *Pool) overdue() time.Duration {
	return max(Overdue, 2*p.pressure().OrDefaults().Interval)
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
	p.taken(b, r)
	p.setUp(b, p.now())
	return true
}

package pool

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

// round is one look at all backends for a pick, and its reusable memory.
type round struct {
	turn uint64

	// Set by begin without the lock.
	now      time.Time
	replicas int // at least 1
	policy   string
	keyed    bool // see need.hasHome
	set      []*backend
	cands    []candidate // of each backend of the set; decide fills them

	// Set by decide with the lock.
	need       need
	picked     int                // −1: none
	placements []prefix.Placement // to share with the fleet
}

// begin asks clock, settings, fleet and breaker.
func (r *round) begin(p *Pool, d *Demand, set []*backend) {
	r.now, r.replicas, r.policy, r.set = p.o.Now(), max(p.o.Fleet.Replicas(), 1), p.o.Policy(), set
	// Replicas that share placements need not guess where the others would send it.
	r.keyed = d.key() != 0 && !p.o.Fleet.Sharing()
	broken := p.o.Open
	if d.Optional {
		broken = p.o.Shut
	}
	r.cands = append(r.cands[:0], make([]candidate, len(set))...)
	for i, b := range set {
		r.cands[i].broken, r.cands[i].ramp = broken(b.id), p.o.Ramp(b.id)
	}
}

// usable sets which candidates may be used, and their distance from the prompt's home.
func (r *round) usable(d *Demand) {
	key := d.key()
	for i, b := range r.set {
		c := &r.cands[i]
		c.broken = c.broken || d.Optional && c.suspect
		c.excluded = slices.Contains(d.Exclude, b.id)
		if key != 0 {
			c.home = b.cache.Rank(key)
		}
	}
}

// prevented reports whether the pick avoided an eviction: it evicts less than half of what the round-robin choice would
// have, which is at least one block.
func (r *round) prevented() bool {
	other := &r.cands[r.turn%uint64(len(r.cands))]
	out := other.evicts(&r.need)
	return out >= float64(max(other.blockSize, 1)) && 2*r.cands[r.picked].evicts(&r.need) < out
}

package pool

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
)

const (
	// maxCandidates bounds the backends that a pick considers. The least loaded of 64 random ones is among the best
	// 5 % of any pool in 96 % of picks.
	maxCandidates = 64
	// maxHomes of them are the first by rendezvous hashing of the prompt.
	maxHomes = 4
)

// round is one pass over the backends, for a pick or a snapshot, and its reusable memory.
type round struct {
	// Set by begin and ask without the lock.
	moment
	policy   string
	keyed    bool // see choose.Request
	set      []*backend
	turn     uint64
	backends []*backend // the considered backends
	views    []view     // of each of these

	// Set by decide with the lock.
	need   choose.Request
	cands  []choose.Candidate // of each of the backends
	raw    []int              // expected cached tokens, before the correction by the observed hit rate
	picked int                // −1: none
	placed []prefix.Placement // to share with the fleet
}

// view is a backend as the breaker sees it.
type view struct {
	broken bool
	ramp   float64
}

// begin reads the values that hold for all backends.
func (r *round) begin(p *Pool, d *Demand) {
	r.moment = moment{now: p.o.Now(), replicas: max(p.o.Fleet.Replicas(), 1)}
	r.policy = p.o.Policy()
	// Replicas that share placements need not guess where the others would send it.
	r.keyed = d.key() != 0 && !p.o.Fleet.Sharing()
	r.set = *p.set.Load()
}

// all considers every backend.
func (r *round) all() { r.backends = append(r.backends[:0], r.set...) }

// ask queries the breaker for the considered backends.
func (r *round) ask(p *Pool, d *Demand) {
	broken := p.o.Open
	if d.Optional {
		broken = p.o.Shut
	}
	r.views = r.views[:0]
	for _, b := range r.backends {
		r.views = append(r.views, view{broken: broken(b.id), ramp: p.o.Ramp(b.id)})
	}
}

// sample considers the backends that hold the prompt's prefix or are its homes, and some in a row from a random start.
func (p *Pool) sample(r *round, d *Demand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.backends = r.backends[:0]
	if b := p.byID[d.WarmBackend]; b != nil {
		r.add(b)
	}
	p.warm.Find(d.parts(), 1<<30, func(number, _ int, _ bool) {
		if b := p.numbered[number]; b != nil && len(r.backends) < maxCandidates/2 {
			r.add(b)
		}
	})
	if key := d.key(); key != 0 {
		r.homes(key)
	}
	n := uint64(len(r.set))
	for i, from := uint64(0), prefix.Rendezvous(prefix.Key(r.turn), 0); i < n && len(r.backends) < maxCandidates; i++ {
		if b := r.set[(from+i)%n]; !p.out(b, r.now) {
			r.add(b)
		}
	}
}

// homes adds the backends nearest to a prompt's home.
func (r *round) homes(key prefix.Key) {
	var nearest [maxHomes]*backend
	var ranks [maxHomes]uint64
	for _, b := range r.set {
		rank := prefix.Rendezvous(key, b.hash)
		if rank <= ranks[maxHomes-1] {
			continue
		}
		at := maxHomes - 1
		for ; at > 0 && rank > ranks[at-1]; at-- {
			nearest[at], ranks[at] = nearest[at-1], ranks[at-1]
		}
		nearest[at], ranks[at] = b, rank
	}
	for _, b := range nearest {
		if b != nil {
			r.add(b)
		}
	}
}

func (r *round) add(b *backend) {
	if !slices.Contains(r.backends, b) {
		r.backends = append(r.backends, b)
	}
}

// index returns a backend's index in the round, −1 if it is not considered.
func (r *round) index(b *backend) int {
	if b.at < len(r.backends) && r.backends[b.at] == b {
		return b.at // all are considered
	}
	return slices.Index(r.backends, b)
}

// meanFor is how long the cached mean of a large pool is valid.
const meanFor = 20 * time.Millisecond

// meanNow returns the pool's mean, in a large pool possibly meanFor old. The caller holds mu.
func (p *Pool) meanNow(now time.Time) mean {
	set := *p.set.Load()
	if old := now.Sub(p.meanAt); len(set) <= maxCandidates || old < 0 || old > meanFor {
		p.mean, p.meanAt = meanOf(set, now), now
	}
	p.mean.prompt = float64(p.meanPrompt)
	return p.mean
}

// usable sets which candidates may be used, and their distance from the prompt's home.
func (r *round) usable(d *Demand) {
	key := d.key()
	for i, b := range r.backends {
		c := &r.cands[i]
		c.Broken = r.views[i].broken || d.Optional && c.Suspect
		c.Excluded = slices.Contains(d.Exclude, b.id)
		if key != 0 {
			c.Home = prefix.Rendezvous(key, b.hash)
		}
	}
}

// prevented reports whether the pick avoided an eviction: it evicts less than half of what the round-robin choice would
// have, which is at least one block.
func (r *round) prevented() bool {
	other := &r.cands[r.turn%uint64(len(r.cands))]
	out := other.Evicts(r.need)
	return out >= float64(max(other.BlockSize, 1)) && 2*r.cands[r.picked].Evicts(r.need) < out
}

package pool

import (
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

const (
	// maxCandidates is how many backends a pick looks at: the least loaded of 64 drawn at
	// random is among the best 5 % of a pool of any size in 96 of 100 picks.
	maxCandidates = 64
	// maxHomes is how many of these are the nearest to the prompt's home.
	maxHomes = 4
)

// errNotScraped says that no backend was looked at yet.
var errNotScraped = errors.New("no backend was looked at")

// round is one look at the backends, for a pick or a snapshot, and the memory of it.
type round struct {
	// By begin and ask, which call others and hold no lock.
	moment
	keyed    bool // see choose.Request
	set      []*backend
	turn     uint64
	chain    []uint64   // the prompt's blocks, by the index
	backends []*backend // those that are looked at
	views    []view     // of each of these

	// By decide, which holds the lock.
	need   choose.Request
	cands  []choose.Candidate // of each of the backends
	raw    []int              // what was expected to be cached there, before it was compared with what comes true
	picked int                // −1 is none
	placed []prefix.Placement // to be told
}

// view is what the breaker and the index say of one backend.
type view struct {
	broken       bool
	ramp         float64
	cached       int // by the index, see [Index].Cached
	whole, known bool
}

// begin takes in what holds for all backends.
func (r *round) begin(p *Pool, d *Demand) {
	r.moment = moment{now: p.o.Now(), config: p.o.Config(), age: p.o.Pressure(), replicas: max(p.o.Fleet.Known(), 1)}
	// Replicas that hear of each other need not guess where the others would send it.
	r.keyed = d.key() != 0 && !p.o.Fleet.Sharing()
	r.chain = p.o.Index.Chain(r.chain[:0], d)
	r.set = *p.set.Load()
}

// all looks at every backend.
func (r *round) all() { r.backends = append(r.backends[:0], r.set...) }

// ask takes in what others say of the backends that are looked at.
func (r *round) ask(p *Pool, d *Demand) {
	broken := p.o.Open
	if d.Optional {
		broken = p.o.Shut
	}
	r.views = r.views[:0]
	for _, b := range r.backends {
		v := view{broken: broken(b.id), ramp: p.o.Ramp(b.id)}
		if len(r.chain) > 0 {
			v.cached, v.whole, v.known = p.o.Index.Cached(b.id, r.chain)
		}
		r.views = append(r.views, v)
	}
}

// sample looks at those where the prompt is warm or at home, and at some in a row
// from a place drawn by the turn.
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
		if b := r.set[(from+i)%n]; !b.out(r.now) {
			r.add(b)
		}
	}
}

// homes adds those nearest to a prompt's home.
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

// index is where a backend stands among those looked at, −1 when it does not.
func (r *round) index(b *backend) int {
	if b.at < len(r.backends) && r.backends[b.at] == b {
		return b.at // all are looked at
	}
	return slices.Index(r.backends, b)
}

// meanFor is how long the mean of a large pool is good for.
const meanFor = 20 * time.Millisecond

// meanNow is the pool's mean; that of a large pool is a little old. The caller holds
// mu.
func (p *Pool) meanNow(now time.Time, age pressure.Config) mean {
	set := *p.set.Load()
	if old := now.Sub(p.meanAt); len(set) <= maxCandidates || old < 0 || old > meanFor {
		p.mean, p.meanAt = meanOf(set, now, age), now
	}
	p.mean.prompt = float64(p.meanPrompt)
	return p.mean
}

// silence has backends that are down for their silence alone count as suspects where
// none is up: it may be this replica that hears nothing.
func (r *round) silence() {
	for _, b := range r.backends {
		if !b.out(r.now) {
			return
		}
	}
	for i, b := range r.backends {
		if b.down == errSilent && !b.gone && b.drained.reason(r.now) == "" {
			r.cands[i].Down, r.cands[i].Suspect = false, true
		}
	}
}

// usable fills in which candidates may not be used, and how near home the prompt is at each.
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

// minRanked is the prompt tokens below which the server's own balance is worth more.
const minRanked = 256

// rank is the engine behind b's URL that is to take the prompt, so that its next turn
// finds it warm; −1 leaves it to the server.
func (r *round) rank(b *backend, d *Demand) int {
	key := d.key()
	if len(b.reading.Ranks) == 0 || r.need.PromptTokens < minRanked || key == 0 {
		return -1
	}
	if _, known := b.weigh(r.now, &r.age); !known {
		return -1
	}
	var engines [pressure.MaxRanks]choose.Engine
	n := 0
	for _, k := range b.reading.Ranks[:min(len(b.reading.Ranks), pressure.MaxRanks)] {
		engines[n] = choose.Engine{KVUsage: k.KVUsage, Requests: float64(k.Running + k.Waiting)}
		n++
	}
	return choose.Rank(r.config, engines[:n], uint64(key))
}

// prevented reports whether the pick avoided an eviction: it pushes out less than half of what
// it would have on the backend whose turn it was, which is a block at least.
func (r *round) prevented() bool {
	other := &r.cands[r.turn%uint64(len(r.cands))]
	out := other.Evicts(r.need)
	return out >= float64(max(other.BlockSize, 1)) && 2*r.cands[r.picked].Evicts(r.need) < out
}

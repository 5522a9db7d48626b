package prefix

import (
	"slices"
	"time"
)

const (
	// minTokens is the shortest part worth remembering: 16 blocks of vLLM's.
	minTokens = 256
	// life is how long a part that nobody asks for is remembered, and fresh how long it
	// counts as something that the next prompt should not push out.
	life, fresh = time.Hour, 5 * time.Minute
	// tellAgain is how often others are told of a part that is in use: well within
	// life, so that they do not forget it.
	tellAgain = time.Minute
	// unused is how long a part may go without use on one backend, while it is used on
	// another, before it counts no more there: the copy will be the first to go.
	unused = 30 * time.Second
	// together is how far apart two replicas may hear of the same thing.
	together = 2 * time.Second
	// maxPlaces bounds on how many backends one part is known to be warm; a part
	// that is warm on more is warm nearly everywhere.
	maxPlaces = 16
)

// Table remembers where parts are warm, as far as it was told: by its own replica's
// picks, and by what other replicas tell. It is bounded, and not safe for concurrent
// use. Backends are known by small numbers, in the order of [Table.Join].
type Table struct {
	most     int
	entries  map[Key]*entry
	ring     entry  // its next is the entry used last, its prev the one to go first
	edge     *entry // the one that was used first of those that are fresh; &ring: none is
	free     *entry // a list, by next
	backends []cache
}

// cache is what is known of one backend's prefix cache.
type cache struct {
	hash     uint64  // of its id, the same for all replicas
	life     uint32  // counts restarts: places of an earlier life are cold
	capacity float64 // tokens; 0 is unknown
	placed   float64 // tokens of all parts that are placed there
	recency  recency
}

// entry is a part and where it is warm.
type entry struct {
	key        Key
	used       time.Time
	places     []place
	prev, next *entry
}

// place is a part on one backend.
type place struct {
	backend     int
	life        uint32
	tokens, own float64
	slot        int32     // in the backend's recency; 0 is none
	weight      float64   // what it has put there
	since       time.Time // it is warm
	used, told  time.Time // last
}

// NewTable returns a table of at most so many parts.
func NewTable(most int) *Table {
	t := &Table{most: most, entries: make(map[Key]*entry)}
	t.ring.prev, t.ring.next = &t.ring, &t.ring
	t.edge = &t.ring
	return t
}

// Join makes room for one backend more and returns its number. hash is of its id.
func (t *Table) Join(hash uint64) int {
	t.backends = append(t.backends, cache{hash: hash})
	return len(t.backends) - 1
}

// Rejoin gives a number to another backend.
func (t *Table) Rejoin(backend int, hash uint64) {
	t.Forget(backend)
	b := &t.backends[backend]
	b.hash, b.capacity = hash, 0
}

// Rescale says that all lengths told so far were estimates, wrong by a factor.
func (t *Table) Rescale(factor float64) {
	for i := range t.backends {
		t.backends[i].placed *= factor
		t.backends[i].recency.scale(factor)
	}
	for e := t.ring.next; e != &t.ring; e = e.next {
		for i := range e.places {
			p := &e.places[i]
			p.tokens, p.own, p.weight = p.tokens*factor, p.own*factor, p.weight*factor
		}
	}
}

// Capacity tells how many tokens a backend's cache holds; 0 is unknown.
func (t *Table) Capacity(backend, tokens int) { t.backends[backend].capacity = float64(tokens) }

// Forget says that a backend's cache is empty: it was restarted, or is gone.
func (t *Table) Forget(backend int) {
	b := &t.backends[backend]
	b.life++
	b.placed, b.recency = 0, recency{}
}

// Placed is how many tokens are placed on a backend.
func (t *Table) Placed(backend int) float64 { return t.backends[backend].placed }

// Find tells found of every backend on which some part is warm, how many tokens of a
// prompt of that length it is, and whether it is the part's main place. A backend may
// be told of more than once; the most counts.
func (t *Table) Find(parts []Part, prompt int, found func(backend, tokens int, main bool)) {
	for _, part := range parts {
		e := t.entries[part.Key]
		if e == nil {
			continue
		}
		main := t.main(e)
		for i := range e.places {
			p := &e.places[i]
			if tokens := min(int(t.warm(p)), part.tokens(prompt)); tokens > 0 {
				found(p.backend, tokens, i == main)
			}
		}
	}
}

// main is the place that all replicas keep to: the one that has been warm longest. Of
// several that began at about the same time, of which each replica may have heard in
// another order, it is the one nearest home.
func (t *Table) main(e *entry) int {
	var first time.Time
	for i := range e.places {
		if p := &e.places[i]; t.warm(p) > 0 && (first.IsZero() || p.since.Before(first)) {
			first = p.since
		}
	}
	main, near := -1, uint64(0)
	for i := range e.places {
		p := &e.places[i]
		if t.warm(p) <= 0 || p.since.Sub(first) > together {
			continue
		}
		if h := Rendezvous(e.key, t.backends[p.backend].hash); main < 0 || h > near {
			main, near = i, h
		}
	}
	return main
}

// Rendezvous ranks backends for a key (highest random weight, Thaler and
// Ravishankar 1998): the greatest value is the key's home, every replica finds the
// same, and a backend that comes or goes moves only the keys that it has or had: one
// in n.
func Rendezvous(key Key, backend uint64) uint64 { return mix(uint64(key) ^ mix(backend)) }

// mix spreads the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tokens is the length of a part of a prompt of that length.
func (p Part) tokens(prompt int) int { return int(min(max(p.Share, 0), 1) * float64(max(prompt, 0))) }

// warm is how much of a part is still in the cache. An engine takes blocks by their last
// use: what was used since is there before the part, and the part's own tail goes first.
func (t *Table) warm(p *place) float64 {
	b := &t.backends[p.backend]
	if p.life != b.life {
		return 0
	}
	if b.capacity == 0 {
		return p.tokens
	}
	return min(max(b.capacity-b.recency.after(p.slot), 0), p.tokens)
}

// Place notes that a prompt of that length is sent to a backend, and appends to told
// what other replicas should hear of it. id is the backend's, for them.
func (t *Table) Place(told []Placement, parts []Part, prompt, backend int, id string, now time.Time) []Placement {
	t.expire(now)
	before, short := 0, 0 // tokens of the part before, and of one that is too short
	for _, part := range parts {
		tokens := part.tokens(prompt)
		own := tokens - before
		if own < minTokens {
			short = own
			continue
		}
		before = tokens
		p := t.place(part.Key, backend, now)
		said := Placement{Key: part.Key, Backend: id, Tokens: tokens, Own: own}
		said.Cold = p.tokens == 0 || p.tokens-t.warm(p) > float64(own)/2
		t.use(p, said, own-short, now) // what is too short begins other prompts, too
		short = 0
		if said.Cold || now.Sub(p.told) >= tellAgain {
			p.told = now
			told = append(told, said)
		}
	}
	t.Push(backend, prompt-before) // what is not remembered is computed each time, as far as we know
	return told
}

// Push notes that tokens were computed on a backend that nobody will ask for again,
// or too few to remember.
func (t *Table) Push(backend, tokens int) {
	if tokens > 0 {
		t.slots(backend).push(float64(tokens))
	}
}

// Remove forgets that parts of a prompt are on a backend.
func (t *Table) Remove(parts []Part, backend int) {
	for _, part := range parts {
		e := t.entries[part.Key]
		if e == nil {
			continue
		}
		for i := range e.places {
			if p := &e.places[i]; p.backend == backend {
				t.leave(p)
				e.places = slices.Delete(e.places, i, i+1)
				break
			}
		}
	}
}

// Merge notes what another replica did.
func (t *Table) Merge(said Placement, backend int, now time.Time) {
	if said.Own < minTokens || said.Own > said.Tokens {
		return
	}
	t.expire(now)
	p := t.place(said.Key, backend, now)
	t.use(p, said, said.Own, now)
	p.told = now // they all heard it
}

// use books a use of p as said; so many tokens of it are nobody else's.
func (t *Table) use(p *place, said Placement, tokens int, now time.Time) {
	order := t.slots(p.backend) // may move p's slot
	if p.slot > 0 {
		order.add(p.slot, -p.weight)
	}
	p.weight = float64(tokens)
	p.slot = order.use(p.weight)
	b := &t.backends[p.backend]
	b.placed += float64(said.Own) - p.own
	p.used = now
	if said.Cold || p.since.IsZero() {
		p.since = now
	}
	p.tokens, p.own = float64(said.Tokens), float64(said.Own)
}

// slots is a backend's recency with room for one more.
func (t *Table) slots(backend int) *recency {
	b := &t.backends[backend]
	if !b.recency.full() {
		return &b.recency
	}
	used := make([]bool, len(b.recency.slots))
	t.each(backend, func(p *place) { used[p.slot] = true })
	moved := b.recency.compact(used)
	t.each(backend, func(p *place) { p.slot = moved[p.slot] })
	return &b.recency
}

// each tells do of every place on a backend.
func (t *Table) each(backend int, do func(*place)) {
	for e := t.ring.next; e != &t.ring; e = e.next {
		for i := range e.places {
			if p := &e.places[i]; p.backend == backend && p.life == t.backends[backend].life && p.slot > 0 {
				do(p)
			}
		}
	}
}

// place returns the place of a part on a backend, an empty one if there is none.
func (t *Table) place(k Key, backend int, now time.Time) *place {
	e := t.entry(k)
	e.used = now
	t.front(e)
	oldest := 0
	for i := range e.places {
		p := &e.places[i]
		if now.Sub(p.used) > unused && p.backend != backend {
			t.leave(p)
			p.own = 0
		}
		if p.backend == backend {
			if life := t.backends[backend].life; p.life != life {
				*p = place{backend: backend, life: life}
			}
			return p
		}
		if p.used.Before(e.places[oldest].used) {
			oldest = i
		}
	}
	fresh := place{backend: backend, life: t.backends[backend].life}
	if len(e.places) == maxPlaces {
		t.leave(&e.places[oldest])
		e.places[oldest] = fresh
		return &e.places[oldest]
	}
	e.places = append(e.places, fresh)
	return &e.places[len(e.places)-1]
}

// leave takes a place out of its backend's sum.
func (t *Table) leave(p *place) {
	if b := &t.backends[p.backend]; p.life == b.life {
		b.placed -= p.own
	}
}

// entry returns the entry of a key, a new one if there is none.
func (t *Table) entry(k Key) *entry {
	if e := t.entries[k]; e != nil {
		return e
	}
	if len(t.entries) >= t.most {
		t.drop(t.ring.prev)
	}
	e := t.free
	if e == nil {
		e = &entry{}
	} else {
		t.free = e.next
	}
	*e = entry{key: k, places: e.places[:0]}
	t.entries[k] = e
	return e
}

// expire forgets what nobody asked for in a while, a few parts at a time.
func (t *Table) expire(now time.Time) {
	for range 2 * MaxParts {
		if e := t.edge; e != &t.ring && now.Sub(e.used) >= fresh {
			t.edge = e.prev
			t.uncount(e)
		}
		if e := t.ring.prev; e != &t.ring && now.Sub(e.used) >= life {
			t.drop(e)
		}
	}
}

// uncount takes an entry out of the sums.
func (t *Table) uncount(e *entry) {
	for i := range e.places {
		t.leave(&e.places[i])
		e.places[i].own = 0
	}
}

func (t *Table) drop(e *entry) {
	t.uncount(e)
	t.unlink(e)
	delete(t.entries, e.key)
	e.prev, e.next = nil, t.free
	t.free = e
}

// unlink takes e out of the ring.
func (t *Table) unlink(e *entry) {
	if t.edge == e {
		t.edge = e.prev
	}
	e.prev.next, e.next.prev = e.next, e.prev
}

// front makes e the entry used last.
func (t *Table) front(e *entry) {
	if e.prev != nil {
		t.unlink(e)
	}
	e.prev, e.next = &t.ring, t.ring.next
	e.prev.next, e.next.prev = e, e
	if t.edge == &t.ring {
		t.edge = e
	}
}

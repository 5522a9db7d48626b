package prefix

import (
	"slices"
	"time"
)

const (
	// minTokens is the shortest prefix worth remembering: 16 of vLLM's blocks.
	minTokens = 256
	// life is how long an unused prefix is remembered, and fresh how long it counts as one that the next prompt should
	// not evict.
	life, fresh = time.Hour, 5 * time.Minute
	// tellAgain is how often the use of a prefix is shared with other replicas: well within life, so that they keep it.
	tellAgain = time.Minute
	// unused is how long a prefix may be unused on one backend while it is used on another, before it no longer counts
	// there: that copy will be evicted first.
	unused = 30 * time.Second
	// together bounds the delay between two replicas that learn of the same event.
	together = 2 * time.Second
	// maxPlaces bounds the backends that are stored for one prefix; one that is cached on more is cached nearly
	// everywhere.
	maxPlaces = 16
)

// Table stores which backends have which prompt prefixes in their caches, by this replica's picks and by placements of
// other replicas. It is bounded, and not safe for concurrent use. Backends have small numbers, in the order of
// [Table.Join].
type Table struct {
	maxEntries int
	entries    map[Key]*entry
	ring       entry  // next is the most recently used entry, prev the least
	edge       *entry // the least recently used of the fresh entries; &ring: none
	free       *entry // a list, by next
	backends   []cache
}

// cache is what is known of one backend's prefix cache.
type cache struct {
	hash     uint64  // of its id, the same for all replicas
	life     uint32  // counts restarts: placements of an earlier life are void
	capacity float64 // tokens; 0 is unknown
	placed   float64 // tokens of all prefixes placed there
	recency  recency
}

// entry is a prefix and the backends that have it.
type entry struct {
	key        Key
	used       time.Time
	places     []place
	prev, next *entry
}

// place is a prefix on one backend.
type place struct {
	backend        int
	life           uint32
	tokens, own    float64
	slot           int32     // in the backend's recency; 0 is none
	weight         float64   // tokens it has added there
	since          time.Time // start of its time in the cache
	used, sharedAt time.Time // last use, last time it was shared
}

// NewTable returns a table of at most so many prefixes.
func NewTable(maxEntries int) *Table {
	t := &Table{maxEntries: maxEntries, entries: make(map[Key]*entry)}
	t.ring.prev, t.ring.next = &t.ring, &t.ring
	t.edge = &t.ring
	return t
}

// Join adds a backend and returns its number. hash is of its id.
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

// Rescale says that all lengths so far were estimates that are wrong by a factor.
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

// Capacity sets the tokens that a backend's cache holds; 0 is unknown.
func (t *Table) Capacity(backend, tokens int) { t.backends[backend].capacity = float64(tokens) }

// Forget says that a backend's cache is empty: it restarted or is gone.
func (t *Table) Forget(backend int) {
	b := &t.backends[backend]
	b.life++
	b.placed, b.recency = 0, recency{}
}

// Placed returns the tokens that are placed on a backend.
func (t *Table) Placed(backend int) float64 { return t.backends[backend].placed }

// Find calls found for every backend that has a prefix of the prompt cached, with the cached tokens for a prompt of that
// length, and whether it is the prefix's main backend. A backend may be reported more than once; the largest value
// counts.
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

// main returns the backend that all replicas prefer: the one that has had the prefix longest. Of several that began at
// about the same time, which replicas may have learned in different orders, it is the one nearest to the prefix's home.
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

// Rendezvous ranks backends for a key (highest random weight, Thaler and Ravishankar 1998). The backend with the
// greatest value is the key's home. Every replica computes the same, and a backend that joins or leaves moves only its
// own keys, 1/n of all.
func Rendezvous(key Key, backend uint64) uint64 { return Mix(uint64(key) ^ Mix(backend)) }

// Mix spreads the bits of x (the finaliser of splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tokens returns the length of a prefix of a prompt of that length.
func (p Part) tokens(prompt int) int { return int(min(max(p.Share, 0), 1) * float64(max(prompt, 0))) }

// warm returns how much of a prefix is still cached. An engine evicts blocks by their last use: blocks used since the
// prefix stay longer, and the prefix's own tail goes first.
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

// Place records that a prompt of that length is sent to a backend, and appends to told what other replicas must learn.
// id is the backend's id for them.
func (t *Table) Place(placements []Placement, parts []Part, prompt, backend int, id string, now time.Time) []Placement {
	t.expire(now)
	before, short := 0, 0 // tokens of the previous prefix, and of a prefix that is too short
	for _, part := range parts {
		tokens := part.tokens(prompt)
		own := tokens - before
		if own < minTokens {
			short = own
			continue
		}
		before = tokens
		p := t.place(part.Key, backend, now)
		placement := Placement{Key: part.Key, Backend: id, Tokens: tokens, Own: own}
		placement.Cold = p.tokens == 0 || p.tokens-t.warm(p) > float64(own)/2
		t.use(p, placement, own-short, now) // a prefix that is too short is shared with other prompts
		short = 0
		if placement.Cold || now.Sub(p.sharedAt) >= tellAgain {
			p.sharedAt = now
			placements = append(placements, placement)
		}
	}
	t.Push(backend, prompt-before) // tokens that are not remembered count as computed each time
	return placements
}

// Push records that a backend computed tokens that no later prompt will reuse, or too few to remember.
func (t *Table) Push(backend, tokens int) {
	if tokens > 0 {
		t.slots(backend).push(float64(tokens))
	}
}

// Remove removes the prefixes of a prompt from a backend.
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

// Merge records a placement by another replica.
func (t *Table) Merge(placement Placement, backend int, now time.Time) {
	if placement.Own < minTokens || placement.Own > placement.Tokens {
		return
	}
	t.expire(now)
	p := t.place(placement.Key, backend, now)
	t.use(p, placement, placement.Own, now)
	p.sharedAt = now // all replicas know it
}

// use records a use of p. tokens are those that no other prefix counts.
func (t *Table) use(p *place, placement Placement, tokens int, now time.Time) {
	order := t.slots(p.backend) // this may move p's slot
	if p.slot > 0 {
		order.add(p.slot, -p.weight)
	}
	p.weight = float64(tokens)
	p.slot = order.use(p.weight)
	b := &t.backends[p.backend]
	b.placed += float64(placement.Own) - p.own
	p.used = now
	if placement.Cold || p.since.IsZero() {
		p.since = now
	}
	p.tokens, p.own = float64(placement.Tokens), float64(placement.Own)
}

// slots returns a backend's recency list with space for one more.
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

// each calls do for every prefix on a backend.
func (t *Table) each(backend int, do func(*place)) {
	for e := t.ring.next; e != &t.ring; e = e.next {
		for i := range e.places {
			if p := &e.places[i]; p.backend == backend && p.life == t.backends[backend].life && p.slot > 0 {
				do(p)
			}
		}
	}
}

// place returns a prefix's place on a backend, an empty one if there is none.
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

// leave removes a place from its backend's sum.
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
	if len(t.entries) >= t.maxEntries {
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

// expire removes prefixes without recent use, a few at a time.
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

// uncount removes an entry from the sums.
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

// unlink removes e from the ring.
func (t *Table) unlink(e *entry) {
	if t.edge == e {
		t.edge = e.prev
	}
	e.prev.next, e.next.prev = e.next, e.prev
}

// front makes e the most recently used entry.
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

package prefix

import (
	"container/list"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
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
// other replicas. It is bounded. Like its caches, it is not safe for concurrent use.
type Table struct {
	maxEntries int
	entries    map[Key]*list.Element // in order; the values are *entry
	order      *list.List            // the most recently used first
	edge       *list.Element         // the least recently used of the fresh entries; nil: none
}

// Cache is what is known of one backend's prefix cache.
type Cache struct {
	Index int // of the backend in its pool, for the caller alone

	id       string
	hash     uint64  // of the id, the same for all replicas
	life     uint32  // counts restarts: placements of an earlier life are void
	capacity float64 // tokens; 0 is unknown
	placed   float64 // tokens of all prefixes placed there
	recency  recency
}

// NewCache returns the empty cache of a backend with this id.
func NewCache(id string) *Cache { return &Cache{id: id, hash: xxhash.Sum64String(id)} }

// SetCapacity sets the tokens that the cache holds; 0 is unknown.
func (c *Cache) SetCapacity(tokens int) { c.capacity = float64(tokens) }

// Forget says that the cache is empty: the backend restarted or is gone.
func (c *Cache) Forget() {
	c.life++
	c.placed, c.recency = 0, recency{}
}

// Placed returns the tokens that are placed there.
func (c *Cache) Placed() float64 { return c.placed }

// Rank returns how near the backend is to the home of a key: see [Rendezvous].
func (c *Cache) Rank(key Key) uint64 { return Rendezvous(key, c.hash) }

// entry is a prefix and the backends that have it.
type entry struct {
	key    Key
	used   time.Time
	places []place
}

// place is a prefix on one backend.
type place struct {
	cache          *Cache
	life           uint32
	tokens, own    float64
	slot           int32     // in the cache's recency; 0 is none
	weight         float64   // tokens it has added there
	since          time.Time // start of its time in the cache
	used, sharedAt time.Time // last use, last time it was shared
}

// NewTable returns a table of at most so many prefixes.
func NewTable(maxEntries int) *Table {
	return &Table{maxEntries: maxEntries, entries: map[Key]*list.Element{}, order: list.New()}
}

// Rescale says that all lengths so far were estimates that are wrong by a factor.
func (t *Table) Rescale(factor float64) {
	scaled := map[*Cache]bool{}
	for _, e := range t.entries {
		places := e.Value.(*entry).places
		for i := range places {
			p := &places[i]
			if c := p.cache; !scaled[c] {
				scaled[c] = true
				c.placed *= factor
				c.recency.scale(factor)
			}
			p.tokens, p.own, p.weight = p.tokens*factor, p.own*factor, p.weight*factor
		}
	}
}

// Find calls found for every backend that has a prefix of the prompt cached, with the cached tokens for a prompt of that
// length, and whether it is the prefix's main backend. A backend may be reported more than once; the largest value
// counts.
func (t *Table) Find(parts []Part, prompt int, found func(c *Cache, tokens int, main bool)) {
	for _, part := range parts {
		e := t.find(part.Key)
		main := e.main()
		for i := range e.places {
			p := &e.places[i]
			if tokens := min(int(p.warm()), part.tokens(prompt)); tokens > 0 {
				found(p.cache, tokens, i == main)
			}
		}
	}
}

// none is an entry without places.
var none entry

// find returns the entry of a key; one without places if there is none.
func (t *Table) find(k Key) *entry {
	if e := t.entries[k]; e != nil {
		return e.Value.(*entry)
	}
	return &none
}

// main returns the place on the backend that all replicas prefer: the one that has had the prefix longest. Of several that began at
// about the same time, which replicas may have learned in different orders, it is the one nearest to the prefix's home.
func (e *entry) main() int {
	var first time.Time
	for i := range e.places {
		if p := &e.places[i]; p.warm() > 0 && (first.IsZero() || p.since.Before(first)) {
			first = p.since
		}
	}
	main, near := -1, uint64(0)
	for i := range e.places {
		p := &e.places[i]
		if p.warm() <= 0 || p.since.Sub(first) > together {
			continue
		}
		if h := p.cache.Rank(e.key); main < 0 || h > near {
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
func (p *place) warm() float64 {
	c := p.cache
	switch {
	case p.life != c.life:
		return 0
	case c.capacity == 0:
		return p.tokens
	}
	return min(max(c.capacity-c.recency.after(p.slot), 0), p.tokens)
}

// Place records that a prompt of that length is sent to a backend, and appends to placements what other replicas must learn.
func (t *Table) Place(placements []Placement, parts []Part, prompt int, c *Cache, now time.Time) []Placement {
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
		p := t.place(part.Key, c, now)
		placement := Placement{Key: part.Key, Backend: c.id, Tokens: tokens, Own: own}
		placement.Cold = p.tokens == 0 || p.tokens-p.warm() > float64(own)/2
		t.use(p, placement, own-short, now) // a prefix that is too short is shared with other prompts
		short = 0
		if placement.Cold || now.Sub(p.sharedAt) >= tellAgain {
			p.sharedAt = now
			placements = append(placements, placement)
		}
	}
	t.Push(c, prompt-before) // tokens that are not remembered count as computed each time
	return placements
}

// Push records that a backend computed tokens that no later prompt will reuse, or too few to remember.
func (t *Table) Push(c *Cache, tokens int) {
	if tokens > 0 {
		t.slots(c).push(float64(tokens))
	}
}

// Remove removes the prefixes of a prompt from a backend.
func (t *Table) Remove(parts []Part, c *Cache) {
	for _, part := range parts {
		e := t.find(part.Key)
		if i := slices.IndexFunc(e.places, func(p place) bool { return p.cache == c }); i >= 0 {
			e.places[i].leave()
			e.places = slices.Delete(e.places, i, i+1)
		}
	}
}

// Merge records a placement by another replica.
func (t *Table) Merge(placement Placement, c *Cache, now time.Time) {
	if placement.Own < minTokens || placement.Own > placement.Tokens {
		return
	}
	t.expire(now)
	p := t.place(placement.Key, c, now)
	t.use(p, placement, placement.Own, now)
	p.sharedAt = now // all replicas know it
}

// use records a use of p. tokens are those that no other prefix counts.
func (t *Table) use(p *place, placement Placement, tokens int, now time.Time) {
	order := t.slots(p.cache) // this may move p's slot
	if p.slot > 0 {
		order.add(p.slot, -p.weight)
	}
	p.weight = float64(tokens)
	p.slot = order.use(p.weight)
	p.cache.placed += float64(placement.Own) - p.own
	p.used = now
	if placement.Cold || p.since.IsZero() {
		p.since = now
	}
	p.tokens, p.own = float64(placement.Tokens), float64(placement.Own)
}

// slots returns a backend's recency list with space for one more.
func (t *Table) slots(c *Cache) *recency {
	if !c.recency.full() {
		return &c.recency
	}
	used := make([]bool, len(c.recency.slots))
	t.each(c, func(p *place) { used[p.slot] = true })
	moved := c.recency.compact(used)
	t.each(c, func(p *place) { p.slot = moved[p.slot] })
	return &c.recency
}

// each calls do for every prefix on a backend.
func (t *Table) each(c *Cache, do func(*place)) {
	for _, e := range t.entries {
		places := e.Value.(*entry).places
		for i := range places {
			if p := &places[i]; p.cache == c && p.life == c.life && p.slot > 0 {
				do(p)
			}
		}
	}
}

// place returns a prefix's place on a backend, an empty one if there is none.
func (t *Table) place(k Key, c *Cache, now time.Time) *place {
	e := t.entry(k)
	e.used = now
	oldest := 0
	for i := range e.places {
		p := &e.places[i]
		if now.Sub(p.used) > unused && p.cache != c {
			p.leave()
			p.own = 0
		}
		if p.cache == c {
			if p.life != c.life {
				*p = place{cache: c, life: c.life}
			}
			return p
		}
		if p.used.Before(e.places[oldest].used) {
			oldest = i
		}
	}
	fresh := place{cache: c, life: c.life}
	if len(e.places) == maxPlaces {
		e.places[oldest].leave()
		e.places[oldest] = fresh
		return &e.places[oldest]
	}
	e.places = append(e.places, fresh)
	return &e.places[len(e.places)-1]
}

// leave removes a place from its backend's sum.
func (p *place) leave() {
	if p.life == p.cache.life {
		p.cache.placed -= p.own
	}
}

// entry returns the entry of a key, a new one if there is none, as the most recently used.
func (t *Table) entry(k Key) *entry {
	at := t.entries[k]
	if at == nil {
		if len(t.entries) >= t.maxEntries {
			t.drop(t.order.Back())
		}
		at = t.order.PushFront(&entry{key: k})
		t.entries[k] = at
	} else {
		if t.edge == at {
			t.edge = at.Prev()
		}
		t.order.MoveToFront(at)
	}
	if t.edge == nil {
		t.edge = at
	}
	return at.Value.(*entry)
}

// expire removes prefixes without recent use, a few at a time.
func (t *Table) expire(now time.Time) {
	for range 2 * MaxParts {
		if t.edge != nil {
			if e := t.edge.Value.(*entry); now.Sub(e.used) >= fresh {
				t.edge = t.edge.Prev()
				e.uncount()
			}
		}
		if last := t.order.Back(); last != nil && now.Sub(last.Value.(*entry).used) >= life {
			t.drop(last)
		}
	}
}

// uncount removes an entry from the sums.
func (e *entry) uncount() {
	for i := range e.places {
		e.places[i].leave()
		e.places[i].own = 0
	}
}

func (t *Table) drop(at *list.Element) {
	if t.edge == at {
		t.edge = at.Prev()
	}
	e := t.order.Remove(at).(*entry)
	e.uncount()
	delete(t.entries, e.key)
}

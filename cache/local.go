package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// local is a small copy, in this process, of what Redis keeps: the entries used last, up
// to a number of bytes. It is safe for concurrent use.
//
// A copy is served at most a second after the last moment at which it is known to have
// been what Redis had. That moment is when Redis was asked for it; or later, the moment up
// to which every invalidation has been heard, if the subscription to them that is on now
// was already on when Redis was asked. A subscription that is lost leaves every older copy
// with the moment it was asked for.
//
// An invalidation that comes while Redis is being asked wins: a copy needs a ticket from
// before the question, and a forget of the same key in between voids it.
//
// One lock does: it is held for some 50 ns, a thousandth of what a hit costs by HTTP.
type local struct {
	hearing atomic.Pointer[hearing] // nil while there is no subscription

	mu     sync.Mutex
	most   int64 // bytes
	bytes  int64 // of the copies
	copies map[[32]byte]*held
	ends   held // of the ring of all copies: next was used last, prev is the next to go

	last    uint64          // the number of the last subscription
	flushes uint64          // how often all was forgotten
	forgets [buckets]uint64 // how often a key was forgotten, of all keys of a bucket
}

const (
	// copyFor is how long a copy may be served after it was last known to be good: as long
	// as a purge may take to be heard of.
	copyFor = time.Second

	// buckets of keys share one count of invalidations. Two keys that share one cost a copy
	// now and then, and nothing else; at 10,000 invalidations a second and questions of a
	// millisecond it is one ticket of a hundred.
	buckets = 1024

	// heldOverhead is about what a copy takes besides its entry's own bytes.
	heldOverhead = 400
)

// hearing is a subscription to invalidations.
type hearing struct {
	number uint64    // from 1
	upTo   time.Time // all that Redis told before then has been heard
}

// held is a copy in the ring.
type held struct {
	next, prev   *held
	key          Key
	entry        *Entry
	size         int64
	asked        time.Time // when Redis was asked
	until        time.Time // when the entry itself ends
	subscription uint64    // that was on when Redis was asked; 0 is none
}

// ticket allows one copy of what Redis is asked for after it was given out. It needs not
// be used.
type ticket struct {
	key          Key
	asked        time.Time
	subscription uint64
	flushes      uint64
	forgets      uint64
}

// newLocal holds copies of most bytes in all; none if most is not positive.
func newLocal(most int64) *local {
	l := &local{most: most, copies: map[[32]byte]*held{}}
	l.ends.next, l.ends.prev = &l.ends, &l.ends
	return l
}

// get is the copy of an entry, if there is one that may be served now. It must not be changed.
func (l *local) get(k Key, now time.Time) (*Entry, bool) {
	heard := l.hearing.Load() // before the copy: what is forgotten later is not found
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.copies[k.name]
	switch {
	case c == nil || c.key != k:
		return nil, false
	case !c.good(heard, now):
		l.drop(c) // whoever asked now asks Redis, and brings a better one
		return nil, false
	}
	c.unlink()
	l.link(c)
	return c.entry, true
}

// good says whether a copy may be served now.
func (c *held) good(heard *hearing, now time.Time) bool {
	known := c.asked
	if heard != nil && heard.number == c.subscription && heard.upTo.After(known) {
		known = heard.upTo
	}
	return now.Before(c.until) && now.Sub(known) <= copyFor
}

// reserve is to be called before Redis is asked for k, at now.
func (l *local) reserve(k Key, now time.Time) ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := ticket{key: k, asked: now, flushes: l.flushes, forgets: l.forgets[bucket(k.name)]}
	if heard := l.hearing.Load(); heard != nil {
		t.subscription = heard.number
	}
	return t
}

// fill keeps a copy of what Redis had, until the entry's own end at the latest. Nothing is
// kept if the key was forgotten since the ticket was given out, if a later ticket's copy is
// there already, or if the entry is larger than all that may be held.
func (l *local) fill(t ticket, e *Entry, until time.Time) {
	size := heldOverhead + int64(len(e.Tier)+len(e.Acceptance)+len(e.Finish)+cap(e.Answer))
	l.mu.Lock()
	defer l.mu.Unlock()
	if size > l.most || t.flushes != l.flushes || t.forgets != l.forgets[bucket(t.key.name)] {
		return
	}
	if old := l.copies[t.key.name]; old != nil {
		if old.asked.After(t.asked) {
			return
		}
		l.drop(old)
	}
	for l.bytes+size > l.most {
		l.drop(l.ends.prev)
	}
	c := &held{key: t.key, entry: e, size: size, asked: t.asked, until: until, subscription: t.subscription}
	l.copies[t.key.name] = c
	l.bytes += size
	l.link(c)
}

// forget drops the copy of the entry at a Redis key, and voids tickets for it. Keys that are
// no entry's are passed over.
func (l *local) forget(name string) {
	digest, ok := digestIn(name)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgets[bucket(digest)]++
	if c := l.copies[digest]; c != nil {
		l.drop(c)
	}
}

// forgetAll drops all copies and voids all tickets.
func (l *local) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes++
	clear(l.copies)
	l.ends.next, l.ends.prev = &l.ends, &l.ends
	l.bytes = 0
}

// heard says that there is a subscription to invalidations, and that all that Redis told
// before at has been passed to forget. The first one after lost begins a new subscription,
// which must be in force by then: it covers what Redis is asked for from now on.
//
// The reply to a PING proves that for when the PING was sent: Redis sends the invalidations of a turn
// of its loop at the turn's end, behind that turn's replies, but what it answers in a turn was there
// as the turn began, before what the turn changed.
//
// heard and lost are for one goroutine, the one that hears invalidations.
func (l *local) heard(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := hearing{number: l.last, upTo: at}
	switch was := l.hearing.Load(); {
	case was == nil:
		l.last++
		now.number = l.last
	case was.upTo.After(at):
		return
	}
	l.hearing.Store(&now)
}

// lost says that the subscription ended: invalidations may have been missed.
func (l *local) lost() { l.hearing.Store(nil) }

// holds tells how many copies there are, and their bytes.
func (l *local) holds() (entries int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.copies), l.bytes
}

func (l *local) link(c *held) {
	c.prev, c.next = &l.ends, l.ends.next
	c.prev.next, c.next.prev = c, c
}

func (c *held) unlink() { c.prev.next, c.next.prev = c.next, c.prev }

func (l *local) drop(c *held) {
	c.unlink()
	delete(l.copies, c.key.name)
	l.bytes -= c.size
}

// bucket is a digest's own; digests are spread evenly.
func bucket(digest [32]byte) int { return (int(digest[0])<<8 | int(digest[1])) % buckets }

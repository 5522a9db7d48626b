package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// local is a small copy of Redis' entries in this process: the most recently used ones, up to a number of
// bytes. It is safe for concurrent use. A copy is served at most one second after it was last known to equal
// Redis' value. That time is when the value was requested from Redis. It moves forward to the time up to
// which all invalidations have been received, if the present subscription was already active when the value
// was requested. If a subscription is lost, all older copies fall back to the time of their request. An
// invalidation that arrives during a request to Redis wins: a copy needs a ticket from before the request,
// and a forget of the same key in between invalidates the ticket. One lock suffices: it is held for about 50
// ns, a thousandth of the cost of a hit by HTTP.
type local struct {
	hearing atomic.Pointer[hearing] // nil while there is no subscription

	mu       sync.Mutex
	maxBytes int64 // bytes
	bytes    int64 // of the copies
	copies   map[[32]byte]*localCopy
	ends     localCopy // of the ring of all copies: next was used last, prev is evicted next

	last    uint64          // number of the last subscription
	flushes uint64          // how often everything was forgotten
	forgets [buckets]uint64 // how often a key of each bucket was forgotten
}

const (
	// copyFor is how long a copy may be served after it was last known to be current: as long as a purge may
	// take to be noticed.
	copyFor = time.Second

	// Keys in the same bucket share one count of invalidations. Sharing costs a copy occasionally, and
	// nothing else: at 10,000 invalidations a second and requests of a millisecond, one ticket of a hundred
	// is lost.
	buckets = 1024

	// localCopyOverhead is about the memory of a copy besides its entry's own bytes.
	localCopyOverhead = 400
)

// hearing is a subscription to invalidations.
type hearing struct {
	number uint64    // from 1
	upTo   time.Time // everything that Redis sent before then has been processed
}

// localCopy is a copy in the ring.
type localCopy struct {
	next, prev   *localCopy
	key          Key
	entry        *Entry
	size         int64
	requestedAt  time.Time // when Redis was asked
	until        time.Time // when the entry itself expires
	subscription uint64    // active when Redis was asked; 0 is none
}

// ticket allows one copy of a value that is requested from Redis afterwards. It need not be used.
type ticket struct {
	key          Key
	requestedAt  time.Time
	subscription uint64
	flushes      uint64
	forgets      uint64
}

// newLocal holds copies of at most maxSize bytes in total; none if maxSize is not positive.
func newLocal(maxSize int64) *local {
	l := &local{maxBytes: maxSize, copies: map[[32]byte]*localCopy{}}
	l.ends.next, l.ends.prev = &l.ends, &l.ends
	return l
}

// get returns the copy of an entry, if there is one that may be served now. It is read-only.
func (l *local) get(k Key, now time.Time) (*Entry, bool) {
	heard := l.hearing.Load() // before the copy: a key that is forgotten later is not found
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.copies[k.name]
	switch {
	case c == nil || c.key != k:
		return nil, false
	case !c.good(heard, now):
		l.drop(c) // the caller will ask Redis, and bring a newer one
		return nil, false
	}
	c.unlink()
	l.link(c)
	return c.entry, true
}

// good reports whether a copy may be served now.
func (c *localCopy) good(heard *hearing, now time.Time) bool {
	known := c.requestedAt
	if heard != nil && heard.number == c.subscription && heard.upTo.After(known) {
		known = heard.upTo
	}
	return now.Before(c.until) && now.Sub(known) <= copyFor
}

// reserve must be called before Redis is asked for k, at now.
func (l *local) reserve(k Key, now time.Time) ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := ticket{key: k, requestedAt: now, flushes: l.flushes, forgets: l.forgets[bucket(k.name)]}
	if heard := l.hearing.Load(); heard != nil {
		t.subscription = heard.number
	}
	return t
}

// fill stores a copy of a value from Redis, at most until the entry expires. Nothing is stored if the key was
// forgotten since the ticket was issued, if a later ticket's copy exists, or if the entry is larger than the
// whole limit.
func (l *local) fill(t ticket, e *Entry, until time.Time) {
	size := localCopyOverhead + int64(len(e.Tier)+len(e.Acceptance)+len(e.Finish)+cap(e.Answer))
	l.mu.Lock()
	defer l.mu.Unlock()
	if size > l.maxBytes || t.flushes != l.flushes || t.forgets != l.forgets[bucket(t.key.name)] {
		return
	}
	if old := l.copies[t.key.name]; old != nil {
		if old.requestedAt.After(t.requestedAt) {
			return
		}
		l.drop(old)
	}
	for l.bytes+size > l.maxBytes {
		l.drop(l.ends.prev)
	}
	c := &localCopy{key: t.key, entry: e, size: size, requestedAt: t.requestedAt, until: until, subscription: t.subscription}
	l.copies[t.key.name] = c
	l.bytes += size
	l.link(c)
}

// forget deletes the copy of the entry with this Redis key, and invalidates tickets for it. Other keys are
// ignored.
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

// forgetAll deletes all copies and invalidates all tickets.
func (l *local) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes++
	clear(l.copies)
	l.ends.next, l.ends.prev = &l.ends, &l.ends
	l.bytes = 0
}

// confirmSubscription reports that a subscription to invalidations is active, and that everything that Redis sent before at
// has been passed to forget. The first call after lost begins a new subscription, which must be active by
// then: it covers values that are requested from now on. The reply to a PING proves this for the time when
// the PING was sent. Redis sends the invalidations of one turn of its event loop at the end of the turn,
// after that turn's replies. But each reply of a turn shows the data as of the beginning of the turn, before
// its changes. Only the goroutine that reads invalidations may call heard and lost.
func (l *local) confirmSubscription(at time.Time) {
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

// lost reports that the subscription ended: invalidations may have been missed.
func (l *local) lost() { l.hearing.Store(nil) }

// holds returns the number of copies and their bytes.
func (l *local) holds() (entries int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.copies), l.bytes
}

func (l *local) link(c *localCopy) {
	c.prev, c.next = &l.ends, l.ends.next
	c.prev.next, c.next.prev = c, c
}

func (c *localCopy) unlink() { c.prev.next, c.next.prev = c.next, c.prev }

func (l *local) drop(c *localCopy) {
	c.unlink()
	delete(l.copies, c.key.name)
	l.bytes -= c.size
}

// bucket is a digest's bucket; digests are uniformly distributed.
func bucket(digest [32]byte) int { return (int(digest[0])<<8 | int(digest[1])) % buckets }

package cache

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// local is a copy of Redis' entries in this process: those that are used most, up to a number of bytes. It is safe
// for concurrent use. Neither a copy's expiry nor a purge removes it: it is not found any more, and others take its room.
type local struct{ copies *otter.Cache[Key, localCopy] } // nil holds none

const (
	// copyFor is how long a copy may be served after Redis was asked. So it is how long purges may be unheard.
	copyFor = 10 * time.Second

	// localCopyOverhead is about the memory of a copy besides its entry's own bytes.
	localCopyOverhead = 400
)

// localCopy is a copy of an entry.
type localCopy struct {
	entry       *Entry
	requestedAt time.Time // when Redis was asked
}

func newLocal(maxBytes int64) local {
	if maxBytes <= 0 {
		return local{}
	}
	return local{otter.Must(&otter.Options[Key, localCopy]{
		MaximumWeight: uint64(maxBytes),
		Weigher: func(_ Key, c localCopy) uint32 {
			e := c.entry
			return uint32(localCopyOverhead + len(e.Tier) + len(e.Acceptance) + len(e.Finish) + cap(e.Answer))
		},
		Executor: func(evict func()) { evict() }, // no goroutine is left behind
	})}
}

// get returns the copy of an entry, if there is one that may be served now. It is read-only.
func (l local) get(k Key, now time.Time) (*Entry, bool) {
	if l.copies == nil {
		return nil, false
	}
	c, ok := l.copies.GetIfPresent(k)
	return c.entry, ok && now.Sub(c.requestedAt) <= copyFor
}

// fill stores a copy of a value that Redis was asked for at a time.
func (l local) fill(k Key, e *Entry, requestedAt time.Time) {
	if l.copies != nil {
		l.copies.Set(k, localCopy{e, requestedAt})
	}
}

// drop removes a copy, because another answer is stored.
func (l local) drop(k Key) {
	if l.copies != nil {
		l.copies.Invalidate(k)
	}
}

// held returns the bytes of the copies.
func (l local) held() uint64 {
	if l.copies == nil {
		return 0
	}
	return l.copies.WeightedSize()
}

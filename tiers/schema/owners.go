package schema

import (
	"errors"
	"time"
)

// errTooMany says that a tenant has compiled too many schemas lately.
var errTooMany = errors.New("too many new schemas")

// What one tenant may have compiled. The library's time grows with the square of a schema's size: 20 ms for [maxText], which
// is two million units, so perSecond is 4 % of a processor. A schema of 2 KiB is 2,500 units.
const (
	quadratic = 8 << 10  // bytes from which on the square matters
	burst     = 16 << 20 // units
	perSecond = 4 << 20
	maxOwners = 4096 // tenants that are remembered
)

// owner is what a tenant holds of the cache, and what it has had compiled lately.
type owner struct {
	bytes int
	debt  float64 // units; it drains with time
	at    time.Time
}

// mayCompile charges a tenant for a schema of so many bytes, or reports false. The caller holds mu.
func (s *Schemas) mayCompile(tenant string, size int) bool {
	t := s.Now()
	o := s.owners[tenant]
	if o == nil {
		if len(s.owners) >= maxOwners {
			s.forget(t)
		}
		if len(s.owners) >= maxOwners {
			return false
		}
		if s.owners == nil {
			s.owners = map[string]*owner{}
		}
		o = &owner{at: t}
		s.owners[tenant] = o
	}
	o.drain(t)
	if o.debt >= burst {
		return false
	}
	o.debt += float64(size) + float64(size)*float64(size)/quadratic
	return true
}

func (o *owner) drain(now time.Time) {
	if passed := now.Sub(o.at).Seconds(); passed > 0 {
		o.debt, o.at = max(o.debt-passed*perSecond, 0), now
	}
}

// forget drops tenants that hold and owe nothing.
func (s *Schemas) forget(now time.Time) {
	for name, o := range s.owners {
		if o.drain(now); o.bytes == 0 && o.debt == 0 {
			delete(s.owners, name)
		}
	}
}

// hold adds to the size of what a tenant holds.
func (s *Schemas) hold(e *entry, by int) {
	s.bytes += by
	s.owners[e.owner].bytes += by
}

// trim removes the least recently used schemas of the tenants that hold most: nobody's are pushed out by another's.
func (s *Schemas) trim() {
	for s.order.Len() > maxKept || s.bytes > maxKeptBytes {
		most, bytes := "", -1
		for name, o := range s.owners {
			if o.bytes > bytes {
				most, bytes = name, o.bytes
			}
		}
		for at := s.order.Back(); at != nil; at = at.Prev() {
			if old, _ := at.Value.(*entry); old.owner == most {
				s.order.Remove(at)
				delete(s.byKey, old.key)
				s.hold(old, -old.size)
				break
			}
		}
	}
}

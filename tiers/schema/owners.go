package schema

import (
	"errors"
	"time"
)

// errTooMany says that a tenant has compiled too many schemas lately.
var errTooMany = errors.New("too many new schemas")

// Bounds of all cached schemas together: this many bytes of text take 50 MB at worst, compiled (if they
// consist of names only). An instruction of a regular expression counts as a byte.
const (
	maxKeptBytes = 512 << 10
	entryBytes   = 1 << 10 // of one, besides its text
)

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
	kept  map[key]*entry
	bytes int
	debt  float64 // units; it drains with time
	at    time.Time
}

// owner returns a tenant; nil if there are too many. The caller holds mu.
func (s *Schemas) owner(tenant string) *owner {
	now := s.Now()
	if len(s.owners) >= maxOwners && s.owners[tenant] == nil {
		for name, o := range s.owners { // those that hold and owe nothing
			if o.drain(now); o.bytes == 0 && o.debt == 0 {
				delete(s.owners, name)
			}
		}
		if len(s.owners) >= maxOwners {
			return nil
		}
	}
	if s.owners == nil {
		s.owners = map[string]*owner{}
	}
	o := s.owners[tenant]
	if o == nil {
		o = &owner{kept: map[key]*entry{}, at: now}
		s.owners[tenant] = o
	}
	o.drain(now)
	return o
}

// mayCompile charges a tenant for a schema of so many bytes, or reports false.
func (o *owner) mayCompile(size int) bool {
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

// hold adds to what a tenant holds. If all hold too much, those that hold most begin anew: what they use is compiled again.
func (s *Schemas) hold(tenant string, bytes int) {
	if o := s.owners[tenant]; o != nil {
		o.bytes += bytes
		s.bytes += bytes
	}
	for s.bytes > maxKeptBytes {
		var most *owner
		for _, o := range s.owners {
			if most == nil || o.bytes > most.bytes {
				most = o
			}
		}
		s.bytes -= most.bytes
		most.bytes = 0
		clear(most.kept)
	}
}

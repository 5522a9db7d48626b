package pipeline

import (
	"time"

	"github.com/foregate/foregate/cache"
)

// CacheControl holds a request's cache directives (RFC 9111, section 5.2.1).
type CacheControl struct {
	NoStore      bool // the answer is neither stored nor read from the cache
	NoCache      bool // a fresh answer, which is stored
	OnlyIfCached bool // a cached answer or none
	HasMaxAge    bool // the answer may be as old as MaxAge
	MaxAge       time.Duration
}

// empty reports whether there are no directives.
func (c CacheControl) empty() bool { return c == CacheControl{} }

// Allows reports whether a cached answer is young enough.
func (c CacheControl) Allows(e *cache.Entry, now time.Time) bool {
	return !c.HasMaxAge || now.Sub(e.Created) <= c.MaxAge
}

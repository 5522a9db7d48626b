package pipeline

import (
	"time"

	"github.com/foregate/foregate/cache"
)

// CacheControl is what a request asks of the cache (RFC 9111, section 5.2.1).
type CacheControl struct {
	NoStore      bool // nothing of it is kept, and nothing kept is given
	NoCache      bool // a fresh answer, which is kept
	OnlyIfCached bool // a kept answer or none
	HasMaxAge    bool // the answer may be as old as MaxAge
	MaxAge       time.Duration
}

// empty says that the request asks for nothing.
func (c CacheControl) empty() bool { return c == CacheControl{} }

// Allows says whether a kept answer is young enough.
func (c CacheControl) Allows(e *cache.Entry, now time.Time) bool {
	return !c.HasMaxAge || now.Sub(e.Created) <= c.MaxAge
}

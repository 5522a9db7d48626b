package pipeline

import (
	"time"

	"github.com/foregate/foregate/cache"
)

// Control is what a request asks of the cache (RFC 9111, section 5.2.1).
type Control struct {
	NoStore      bool // nothing of it is kept, and nothing kept is given
	NoCache      bool // a fresh answer, which is kept
	OnlyIfCached bool // a kept answer or none
	Bounded      bool // the answer may be as old as MaxAge
	MaxAge       time.Duration
}

// plain says that the request asks for nothing.
func (c Control) plain() bool { return c == Control{} }

// Takes says whether a kept answer is young enough.
func (c Control) Takes(e *cache.Entry, now time.Time) bool {
	return !c.Bounded || now.Sub(e.Created) <= c.MaxAge
}

package health

import (
	"errors"
	"net/url"
	"time"
)

// Reachability is when a backend last answered over HTTP, and why it did not since. The zero value
// is a backend that has never been asked.
type Reachability struct {
	at     time.Time
	failed error
}

// MarkAnswered notes an answer.
func (c *Reachability) MarkAnswered(now time.Time) { *c = Reachability{at: now} }

// MarkEnded notes the end of a question. An answer that is not what was asked for is an answer.
func (c *Reachability) MarkEnded(err error, now time.Time) {
	if _, none := errors.AsType[*url.Error](err); none {
		c.failed = err
		return
	}
	c.MarkAnswered(now)
}

// IsReachable reports whether the backend may be taken to answer.
func (c *Reachability) IsReachable(now time.Time, absent time.Duration) bool {
	return !c.at.IsZero() && (c.failed == nil || now.Sub(c.at) < absent)
}

// Problem is what is wrong where it is not reached, "" where nothing is known.
func (c *Reachability) Problem() string {
	switch {
	case c.failed != nil:
		return "does not answer: " + c.failed.Error()
	case c.at.IsZero():
		return "has not answered yet"
	}
	return ""
}

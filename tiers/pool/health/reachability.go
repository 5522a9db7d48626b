package health

import (
	"errors"
	"net/url"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// Reachability is the time of a backend's last HTTP answer, and the error since. The zero value was never asked.
type Reachability struct {
	at     time.Time
	failed error
}

// MarkAnswered records an answer.
func (c *Reachability) MarkAnswered(now time.Time) { *c = Reachability{at: now} }

// MarkEnded records the end of a question. An HTTP answer with an error status is an answer.
func (c *Reachability) MarkEnded(err error, now time.Time) {
	if _, none := errors.AsType[*url.Error](err); none {
		c.failed = err
		return
	}
	c.MarkAnswered(now)
}

// IsReachable reports whether the last answer is recent enough.
func (c *Reachability) IsReachable(now time.Time) bool {
	return !c.at.IsZero() && (c.failed == nil || now.Sub(c.at) < pressure.UnknownAfter)
}

// Problem returns why the backend is not reachable; "" if unknown.
func (c *Reachability) Problem() string {
	switch {
	case c.failed != nil:
		return "does not answer: " + c.failed.Error()
	case c.at.IsZero():
		return "has not answered yet"
	}
	return ""
}

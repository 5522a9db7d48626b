package health

import (
	"errors"
	"net/url"
	"time"
)

// Contact is when a backend last answered over HTTP, and why it did not since. The zero value
// is a backend that has never been asked.
type Contact struct {
	at     time.Time
	failed error
}

// Answered notes an answer.
func (c *Contact) Answered(now time.Time) { *c = Contact{at: now} }

// Ended notes the end of a question. An answer that is not what was asked for is an answer.
func (c *Contact) Ended(err error, now time.Time) {
	if _, none := errors.AsType[*url.Error](err); none {
		c.failed = err
		return
	}
	c.Answered(now)
}

// Reached reports whether the backend may be taken to answer.
func (c *Contact) Reached(now time.Time, absent time.Duration) bool {
	return !c.at.IsZero() && (c.failed == nil || now.Sub(c.at) < absent)
}

// Why is what is wrong where it is not reached, "" where nothing is known.
func (c *Contact) Why() string {
	switch {
	case c.failed != nil:
		return "does not answer: " + c.failed.Error()
	case c.at.IsZero():
		return "has not answered yet"
	}
	return ""
}

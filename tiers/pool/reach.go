package pool

import (
	"errors"
	"net/url"
	"time"
)

// Reach is whether a pool can take a request, as far as this replica knows.
type Reach int

// A pool has one of these.
const (
	Down      Reach = iota // every backend is down, drained or has an open breaker; or there is none
	Unreached              // of the others, none has answered yet, or none does any more
	Reached                // one of the others has answered
)

// Reach tells whether the pool can take a request. A reading counts as an answer, also one that
// another replica took, and so does whatever else the backend says over HTTP. A backend that says
// nothing more is reached for another [pressure.Config.Absent].
func (p *Pool) Reach() Reach { return p.reach(p.open, false) }

// ReachSpare is Reach for requests that are of no use where they may wait ([Demand].Spare),
// as drafts are.
func (p *Pool) ReachSpare() Reach { return p.reach(p.shut, true) }

func (p *Pool) reach(broken func(backend string) bool, spare bool) Reach {
	now, absent := p.now(), p.pressure().OrDefaults().Absent
	best := Down
	for _, b := range *p.set.Load() {
		if broken(b.id) {
			continue
		}
		var out, reached bool
		p.locked(func() {
			out, reached = b.out(now) || spare && b.vitals.suspect(), b.contact.reached(now, absent)
		})
		switch {
		case out:
		case reached:
			return Reached
		default:
			best = Unreached
		}
	}
	return best
}

// contact is when a backend last answered over HTTP, and why it did not since. The zero value
// is a backend that has never been asked.
type contact struct {
	at     time.Time
	failed error
}

// answered notes an answer.
func (c *contact) answered(now time.Time) { *c = contact{at: now} }

// ended notes the end of a question. An answer that is not what was asked for is an answer.
func (c *contact) ended(err error, now time.Time) {
	if _, none := errors.AsType[*url.Error](err); none {
		c.failed = err
		return
	}
	c.answered(now)
}

// reached reports whether the backend may be taken to answer.
func (c *contact) reached(now time.Time, absent time.Duration) bool {
	return !c.at.IsZero() && (c.failed == nil || now.Sub(c.at) < absent)
}

// why is what is wrong where it is not reached.
func (c *contact) why() string {
	switch {
	case c.failed != nil:
		return "does not answer: " + c.failed.Error()
	case c.at.IsZero():
		return "has not answered yet"
	}
	return ""
}

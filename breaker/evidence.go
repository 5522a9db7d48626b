package breaker

import "time"

// The evidence that opens a breaker on all replicas, and the open times (docs/concepts.md#breakers).
const (
	minPercent   = 50               // of minFinished calls of all replicas or more, faults
	fleetOpen    = 2 * time.Second  // the first open time; it doubles with each later one
	maxFleetOpen = 30 * time.Second // before randomization
	fleetSpread  = 100              // an open time is randomized by ± this many permille
)

// news holds what a replica observed of a backend.
type news struct {
	finished, faults, unreachable int
	back                          int // reported successes that it revokes
}

// newsOf is the observation of one outcome.
func newsOf(o Outcome) news {
	switch o {
	case Success:
		return news{finished: 1}
	case Fault:
		return news{finished: 1, faults: 1}
	case Unreachable:
		return news{finished: 1, faults: 1, unreachable: 1}
	}
	return news{}
}

func (n *news) add(m news) {
	n.finished += m.finished
	n.faults += m.faults
	n.unreachable += m.unreachable
}

// evidence keeps the observations of the last ten seconds, in buckets. Older ones are useless when they can
// finally be sent.
type evidence [Buckets]struct {
	second int64
	news
}

// note adds observations; at is the time since any fixed moment.
func (e *evidence) note(n news, at time.Duration) {
	second := int64(at / Bucket)
	b := &e[second%Buckets]
	if b.second != second {
		b.second, b.news = second, news{}
	}
	b.add(n)
}

// take returns the observations and empties it.
func (e *evidence) take(at time.Duration) news {
	second := int64(at / Bucket)
	var sum news
	for i := range e {
		if e[i].second > second-Buckets {
			sum.add(e[i].news)
		}
	}
	*e = evidence{}
	return sum
}

// revoke deletes the successes that were not sent yet.
func (e *evidence) revoke() {
	for i := range e {
		e[i].finished = e[i].faults
	}
}

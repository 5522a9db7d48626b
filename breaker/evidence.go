package breaker

import (
	"time"

	"github.com/foregate/foregate/breaker/machine"
)

// Evidence that opens a breaker on all replicas, and how long it then stays open
// (docs/concepts.md#breakers).
const (
	evidenceBucket  = time.Second
	evidenceBuckets = 10
	minFinished     = 5                // finished calls of all replicas
	minPercent      = 50               // of these, faults
	fleetOpen       = 2 * time.Second  // the first open time; it doubles with each that follows
	maxFleetOpen    = 30 * time.Second // before the random part
	fleetSpread     = 100              // permille that an open time is longer or shorter
)

// news is what a replica saw of a backend.
type news struct {
	finished, faults, unreachable int
	back                          int // successes that it told and takes back
}

// newsOf is what an outcome tells of its backend.
func newsOf(o machine.Outcome) news {
	switch o {
	case machine.Success:
		return news{finished: 1}
	case machine.Fault:
		return news{finished: 1, faults: 1}
	case machine.Unreachable:
		return news{finished: 1, faults: 1, unreachable: 1}
	}
	return news{}
}

func (n *news) add(m news) {
	n.finished += m.finished
	n.faults += m.faults
	n.unreachable += m.unreachable
}

// evidence keeps the news of the last ten seconds, in buckets: what is older when it can be
// told at last says nothing any more.
type evidence [evidenceBuckets]struct {
	second int64
	news
}

// note adds news. at counts from any fixed time.
func (e *evidence) note(n news, at time.Duration) {
	second := int64(at / evidenceBucket)
	b := &e[second%evidenceBuckets]
	if b.second != second {
		b.second, b.news = second, news{}
	}
	b.add(n)
}

// take empties it.
func (e *evidence) take(at time.Duration) news {
	second := int64(at / evidenceBucket)
	var sum news
	for i := range e {
		if e[i].second > second-evidenceBuckets {
			sum.add(e[i].news)
		}
	}
	*e = evidence{}
	return sum
}

// revoke forgets the successes that have not been told.
func (e *evidence) revoke() {
	for i := range e {
		e[i].finished = e[i].faults
	}
}

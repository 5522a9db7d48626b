package breaker

import "time"

// Evidence that opens a breaker for the fleet, and how long it then is open
// (reliability.md §2.4).
const (
	evidenceBucket  = time.Second
	evidenceBuckets = 10
	leastFinished   = 5                // finished calls of all replicas
	leastPercent    = 50               // of these, faults
	fleetOpen       = 2 * time.Second  // the first open time; it doubles with each that follows
	fleetLongest    = 30 * time.Second // before the random part
	fleetSpread     = 100              // permille that an open time is longer or shorter
)

// news is what a replica saw of a backend and has not told yet.
type news struct{ finished, faults, unreachable int }

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

// note adds an outcome. at counts from any fixed time.
func (e *evidence) note(o Outcome, at time.Duration) {
	var n news
	switch o {
	case Success:
		n = news{finished: 1}
	case Fault:
		n = news{finished: 1, faults: 1}
	case Unreachable:
		n = news{finished: 1, faults: 1, unreachable: 1}
	default:
		return
	}
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

package admission

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	// maxWaiting bounds the waiting requests of one class at one pool; a tenant with few of them still gets a
	// place, up to twice that number. At the longest wait of class high, 30 s, it allows 34 requests per
	// second.
	maxWaiting = 1024
	// guaranteedPerTenant is the number of waiting requests that every tenant may have.
	guaranteedPerTenant = 16
	// maxFailedTries bounds the failed tries of one pass.
	maxFailedTries = 8
	// maxTriesPerPass bounds all tries of one pass. Requests that wait for their warm backend do not count as
	// failed, because they block no other request.
	maxTriesPerPass = 64
	// passingFactor is how many times smaller a request must be to pass one without capacity.
	passingFactor = 4
	// starvationInterval is how often a request of the lowest waiting class may use the capacity of the next
	// higher class, so that it does not starve.
	starvationInterval = 2 * time.Second
	// maxMidStreamWait is the longest wait of a request whose answer has begun, because its client receives
	// nothing meanwhile.
	maxMidStreamWait = 2 * time.Second
)

// midStreamRank is the rank of requests whose answer has begun: above all classes.
const midStreamRank = identity.High + 1

// Ticket is one request for capacity. It is used for one [Queue.Enter].
type Ticket struct {
	Route  string
	Class  identity.Priority
	Tenant string
	Tokens int // requested; tenants take turns by them
	Config Config
	Waited time.Duration // earlier waits at this pool, for other attempts of the request

	NoWait    bool // refuse instead of waiting
	MidStream bool // its answer has begun: it is served first, and is admitted at the end of its wait in any case

	// Try reserves capacity on a backend below the limit, or returns a *pool.FullError if there is none.
	Try func(pool.Admission) error
	// Done, if it is not nil, is called once with the result: nil, an error of Try, or a *ShedError. It is called within
	// the queue's own methods.
	Done func(error)

	done bool       // it has its result, err
	err  error      // guarded, with done, by the lock of [Queues]
	over chan error // with [Queues.Enter]: the result of one that waits

	deadline      time.Time
	noPassingFrom time.Time      // after this time no request may pass it
	lastFull      pool.FullError // why it waits
	warmWaitSince time.Time      // start of its wait for its warm backend while others have capacity; zero: it does not
}

// tell tells w its result.
func (t *Ticket) tell(err error) {
	t.err, t.done = err, true
	if t.over != nil {
		t.over <- err
	}
	if t.Done != nil {
		t.Done(err)
	}
}

// rank is the class that its turn depends on.
func (t *Ticket) rank() identity.Priority {
	if t.MidStream {
		return midStreamRank
	}
	return t.Class
}

// maxWait is how long it may wait.
func (t *Ticket) maxWait() time.Duration {
	wait := t.Config.MaxWait[t.Class]
	if t.MidStream {
		wait = min(t.Config.MaxWait[identity.High], maxMidStreamWait)
	}
	return max(wait-t.Waited, 0)
}

// Queue holds the requests that wait for capacity at one pool, and the classes that are shed there. It has no
// clock and no lock; the zero value works.
type Queue struct {
	Pool string
	Rand func() float64 // uniform in [0, 1), for the spread of Retry-After; nil is math/rand/v2

	waiting         [midStreamRank + 1]classQueue
	shedStates      map[routeClass]*shedState
	starvedServedAt time.Time
}

// ClassLen is the number of waiting requests of a class; those whose answer has begun count as high.
func (q *Queue) ClassLen(class identity.Priority) int {
	if class == identity.High {
		return q.waiting[class].n + q.waiting[midStreamRank].n
	}
	return q.waiting[class].n
}

// Len is the number of waiting requests.
func (q *Queue) Len() int {
	n := 0
	for i := range q.waiting {
		n += q.waiting[i].n
	}
	return n
}

// Enter admits w if there is capacity and no waiting request comes first. Otherwise w waits, and
// [Queue.Serve] calls its Done later.
func (q *Queue) Enter(w *Ticket, now time.Time) {
	if w.Config.Threshold[w.Class] <= 0 && !w.MidStream { // the operator's kill switch
		w.tell(&ShedError{Pool: q.Pool, Class: w.Class, Reason: ReasonKV, RetryAfter: retryAfter(closedRetryAfter, q.random())})
		return
	}
	w.lastFull = pool.FullError{Pool: q.Pool}
	wait := w.maxWait()
	w.deadline, w.noPassingFrom = now.Add(wait), now.Add(wait/2)
	if q.mayPass(w, now) {
		if err := q.try(w, q.maxUsage(w, now), now); !errors.Is(err, pool.ErrFull) {
			w.tell(err)
			return
		}
	}
	crowd := q.waiting[w.rank()].full(w)
	cannotFit := w.Class < identity.High && w.lastFull.Wait > wait // high waits anyway: the pool's estimate may be wrong
	switch {
	case w.NoWait:
		w.tell(&w.lastFull)
	case w.MidStream && (wait <= 0 || crowd):
		w.tell(w.Try(pool.Admission{}))
	case !w.MidStream && (wait <= 0 || crowd || cannotFit || q.aboveThreshold(w, now)):
		q.placeElsewhereOrRefuse(w, now)
	default:
		q.waiting[w.rank()].join(w)
	}
}

// mayPass reports whether w need not queue: no request of its class or a higher one waits, or only much
// larger ones without capacity. A prompt that fits nowhere must not block smaller ones. After half of its
// wait no request may pass it any more.
func (q *Queue) mayPass(w *Ticket, now time.Time) bool {
	for c := w.rank(); c <= midStreamRank; c++ {
		for _, t := range q.waiting[c].tenants {
			if i := t.waitingForWarm(); i < len(t.tickets) && !t.tickets[i].allowsPassing(w.Tokens, now) {
				return false
			}
		}
	}
	return true
}

// allowsPassing reports whether a request of so many tokens may pass w, which found no capacity, or none on
// its warm backend.
func (t *Ticket) allowsPassing(tokens int, now time.Time) bool {
	return t.lastFull.FreeElsewhere || t.lastFull.Limit > 0 && now.Before(t.noPassingFrom) && tokens < t.Tokens/passingFactor
}

// aboveThreshold reports whether the known KV usage of every backend is above the threshold of w's class:
// then w does not wait. No usage is above a threshold of 1. A request whose answer has begun waits anyway.
func (q *Queue) aboveThreshold(w *Ticket, now time.Time) bool {
	if w.MidStream || w.Config.Threshold[w.Class] >= 1 {
		return false
	}
	s := q.state(w.Route, w.Class)
	return s.current(now) && s.usage >= s.limit
}

// Serve admits waiting requests that have capacity, in turn, and sheds those whose wait is over. It is called
// when capacity may have become free, and periodically.
func (q *Queue) Serve(now time.Time) {
	q.expire(now)
	var failed []*Ticket
	vain := 0
	for w := q.next(failed, now); w != nil; w = q.next(failed, now) {
		err := q.try(w, q.maxUsage(w, now), now)
		if errors.Is(err, pool.ErrFull) {
			if !w.lastFull.FreeElsewhere {
				vain++
			}
			if failed = append(failed, w); vain == maxFailedTries || len(failed) == maxTriesPerPass {
				break
			}
			continue
		}
		q.waiting[w.rank()].served(w)
		w.tell(err)
	}
	q.serveStarved(now)
}

// next returns the request whose turn it is in this pass, nil if there is none: the first of the highest
// waiting class, or one that may pass those that failed.
func (q *Queue) next(failed []*Ticket, now time.Time) *Ticket {
	before := slices.Clip(failed) // every passed request must allow it
	for c := midStreamRank; c >= identity.Low; c-- {
		for _, w := range q.waiting[c].candidates() {
			switch {
			case slices.Contains(failed, w):
			case !slices.ContainsFunc(before, func(b *Ticket) bool { return !b.allowsPassing(w.Tokens, now) }):
				return w
			default:
				before = append(before, w)
			}
		}
	}
	return nil
}

// serveStarved periodically tries the first request of the lowest waiting class with the capacity of the
// class above. If higher classes keep a pool just above the lower class' threshold for minutes, it would
// otherwise never be served.
func (q *Queue) serveStarved(now time.Time) {
	if now.Sub(q.starvedServedAt) < starvationInterval {
		return
	}
	for c := identity.Low; c < identity.High; c++ {
		next := q.waiting[c].next()
		if next == nil {
			continue
		}
		w := next.tickets[0]
		usage := max(w.Config.Threshold[c], w.Config.Threshold[c+1]) // the class above may be closed: 0 would mean no limit
		at := w.limit(usage, now)
		at.MaxQueue = 0
		if err := w.Try(at); !errors.Is(err, pool.ErrFull) {
			q.starvedServedAt = now
			q.waiting[c].served(w)
			w.tell(err)
		}
		return
	}
}

// expire ends the waits that are over.
func (q *Queue) expire(now time.Time) {
	for c := range q.waiting {
		for _, w := range q.waiting[c].expired(func(w *Ticket) bool {
			return !now.Before(w.deadline) || q.aboveThreshold(w, now)
		}) {
			q.waiting[c].leave(w)
			q.endWait(w, now)
		}
	}
}

// endWait ends a wait that was in vain. A request that needs most of a backend's memory
// finds it free only where the others end at once: it is let in by what is in use, and
// waits in the engine.
func (q *Queue) endWait(w *Ticket, now time.Time) {
	switch {
	case w.MidStream:
		w.tell(w.Try(pool.Admission{}))
	case w.lastFull.Large && w.Config.Forecast:
		err := w.Try(pool.Admission{MaxUsage: w.Config.Threshold[w.Class], Now: true})
		if errors.Is(err, pool.ErrFull) {
			q.refuse(w, now)
			return
		}
		w.tell(err)
	default:
		q.placeElsewhereOrRefuse(w, now)
	}
}

// placeElsewhereOrRefuse refuses w, unless there is room for it where it is not warm.
func (q *Queue) placeElsewhereOrRefuse(w *Ticket, now time.Time) {
	if w.lastFull.FreeElsewhere {
		w.deadline = now // it is patient no more
		if err := q.try(w, q.maxUsage(w, now), now); !errors.Is(err, pool.ErrFull) {
			w.tell(err)
			return
		}
	}
	q.refuse(w, now)
}

// Leave takes w out, whose client has left, and reports whether it was still waiting;
// its Done is not called.
func (q *Queue) Leave(w *Ticket) bool { return q.waiting[w.rank()].leave(w) }

// limit is what t may ask of a backend. While it may still wait it is patient: it waits for
// room where it is warm as long as that costs less than to go elsewhere.
func (t *Ticket) limit(limit float64, now time.Time) pool.Admission {
	at := pool.Admission{MaxUsage: limit, Now: !t.Config.Forecast, CanWaitForWarm: !t.NoWait && !t.MidStream && now.Before(t.deadline)}
	if t.Class == identity.Low {
		at.MaxQueue = t.Config.QueueDepth
	}
	if !t.warmWaitSince.IsZero() {
		at.Waited = now.Sub(t.warmWaitSince)
	}
	return at
}

// try takes a place for w, and notes whether its class, and those below, are shed.
func (q *Queue) try(w *Ticket, limit float64, now time.Time) error {
	at := w.limit(limit, now)
	if limit >= 1 && !w.Config.Forecast {
		at = pool.Admission{} // it is let in whatever there is
	}
	err := w.Try(at)
	full, ok := errors.AsType[*pool.FullError](err)
	if ok {
		w.lastFull = *full
		if full.FreeElsewhere && w.warmWaitSince.IsZero() {
			w.warmWaitSince = now
		}
	}
	switch {
	case ok && full.Partial: // what is left after its other tries says nothing of the pool
	case ok:
		for c := identity.Low; c <= w.Class; c++ { // lower classes may not come to a try of their own
			if c < w.Class || !w.MidStream {
				q.record(q.state(w.Route, c), full.Usage, q.threshold(w.Config, w.Route, c, now), now)
			}
		}
	case err == nil && !w.MidStream:
		q.record(q.state(w.Route, w.Class), 0, limit, now)
	}
	return err
}

func (q *Queue) random() float64 {
	if q.Rand == nil {
		return rand.Float64()
	}
	return q.Rand()
}

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
	// maxWaiting is how many of one class wait for one pool; a tenant of whom few wait
	// still finds a place, up to twice that. At the 30 s that high waits at most it is 34
	// requests a second.
	maxWaiting = 1024
	// guaranteedPerTenant is how many waiting requests of one tenant are few.
	guaranteedPerTenant = 16
	// maxFailedTries bounds how many requests one look tries in vain.
	maxFailedTries = 8
	// maxTriesPerPass bounds how many it tries at all: those that wait for the backend where they
	// are warm do not count as in vain, they hold nobody up.
	maxTriesPerPass = 64
	// passingFactor is how many times smaller a request is that may pass one for which
	// there is no room.
	passingFactor = 4
	// starvationInterval is how often one of the lowest class that waits may use the room of
	// the next class, so that it does not starve.
	starvationInterval = 2 * time.Second
	// maxMidStreamWait is how long a request whose answer has begun waits: its client sees
	// silence.
	maxMidStreamWait = 2 * time.Second
)

// midStreamRank is the rank of requests whose answer has begun: above all classes.
const midStreamRank = identity.High + 1

// Ticket is one request that asks for capacity. It is used for one [Queue.Enter].
type Ticket struct {
	Route  string
	Class  identity.Priority
	Tenant string
	Tokens int // that it asks for; tenants take turns by them
	Config Config
	Waited time.Duration // before, at this pool: for its other tries

	NoWait    bool // it does not wait
	MidStream bool // its answer has begun: it goes first, and enters at the end of its wait whatever the pool says

	// Try takes a place at a backend that is no fuller than the limit, or returns a
	// *pool.FullError where there is none such.
	Try func(pool.Admission) error
	// Done is told once what came of it: nil, an error of Try's, or a *ShedError. It is
	// called within the line's own methods.
	Done func(error)

	arrived       time.Time
	deadline      time.Time
	noPassingFrom time.Time      // from then on nobody passes it
	lastFull      pool.FullError // why it waits
	warmWaitSince time.Time      // since when it waits for the backend where it is warm, although there is room elsewhere; zero: it does not
}

// rank is the class by which it is served.
func (w *Ticket) rank() identity.Priority {
	if w.MidStream {
		return midStreamRank
	}
	return w.Class
}

// maxWait is how long it may wait.
func (w *Ticket) maxWait() time.Duration {
	wait := w.Config.Wait(w.Class)
	if w.MidStream {
		wait = min(w.Config.MaxWaitHigh, maxMidStreamWait)
	}
	return max(wait-w.Waited, 0)
}

// Queue is who waits for room at one pool, and which classes are shed there. It has no
// clock and no lock; the zero value works.
type Queue struct {
	Pool string
	Rand func() float64 // uniform in [0, 1), for the spread of Retry-After; nil is math/rand/v2

	waiting         [midStreamRank + 1]classQueue
	failedTickets   []*Ticket // memory of one look: who found no room
	current         *Ticket   // whom the last look has come to, until it is told what came of it
	shedStates      map[routeClass]*shedState
	shedPeriods     map[routeClass]*shedPeriod
	flips           int // of all of these
	starvedServedAt time.Time
}

// ClassLen is how many requests of a class wait; those whose answer has begun count as
// high.
func (l *Queue) ClassLen(class identity.Priority) int {
	if class == identity.High {
		return l.waiting[class].n + l.waiting[midStreamRank].n
	}
	return l.waiting[class].n
}

// Len is how many requests wait.
func (l *Queue) Len() int {
	n := 0
	for i := range l.waiting {
		n += l.waiting[i].n
	}
	return n
}

// Enter lets w in where there is room and nobody waits whose turn is before its own.
// Else it waits; its Done is told later, by [Queue.Serve].
func (l *Queue) Enter(w *Ticket, now time.Time) {
	if w.Config.Threshold(w.Class) <= 0 && !w.MidStream { // the operator's kill switch
		w.Done(&ShedError{Decision{Pool: l.Pool, Class: w.Class, Reason: ReasonKV, RetryAfter: RetryAfter(closedRetryAfter, l.random())}})
		return
	}
	w.lastFull, w.arrived = pool.FullError{Pool: l.Pool}, now
	wait := w.maxWait()
	w.deadline, w.noPassingFrom = now.Add(wait), now.Add(wait/2)
	if l.mayPass(w, now) {
		if err := l.try(w, l.maxUsage(w, now), now); !errors.Is(err, pool.ErrFull) {
			w.Done(err)
			return
		}
	}
	crowd := l.waiting[w.rank()].full(w)
	switch {
	case w.NoWait:
		w.Done(&w.lastFull)
	case w.MidStream && (wait <= 0 || crowd):
		w.Done(w.Try(pool.Admission{}))
	case !w.MidStream && (wait <= 0 || crowd || l.cannotFitInTime(w, wait) || l.aboveThreshold(w, now)):
		l.placeElsewhereOrRefuse(w, now)
	default:
		l.waiting[w.rank()].join(w)
	}
}

// mayPass reports whether w need not queue: nobody of its class or a higher one waits,
// or only such as are much larger and have found no room. A prompt that fits nowhere
// must not hold up all that would fit; half of its wait, and then everybody waits for it.
func (l *Queue) mayPass(w *Ticket, now time.Time) bool {
	for c := w.rank(); c <= midStreamRank; c++ {
		for _, t := range l.waiting[c].tenants {
			if i := t.waitingForWarm(); i < len(t.tickets) && !t.tickets[i].allowsPassing(w.Tokens, now) {
				return false
			}
		}
	}
	return true
}

// allowsPassing reports whether a request of so many tokens may pass w, which found no room, or not
// where it is warm.
func (w *Ticket) allowsPassing(tokens int, now time.Time) bool {
	return w.lastFull.FreeElsewhere || w.lastFull.Limit > 0 && now.Before(w.noPassingFrom) && tokens < w.Tokens/passingFactor
}

// cannotFitInTime reports whether room is not to be expected within w's wait. High waits all the
// same: what a pool tells of itself may be wrong.
func (l *Queue) cannotFitInTime(w *Ticket, wait time.Duration) bool {
	return w.Class < identity.High && w.lastFull.Wait > wait
}

// aboveThreshold reports whether the KV usage of every backend is above the threshold of w's class,
// as far as known: then it does not wait. No usage is above a threshold of 1. Who has
// begun to answer waits all the same.
func (l *Queue) aboveThreshold(w *Ticket, now time.Time) bool {
	if w.MidStream || w.Config.Threshold(w.Class) >= 1 {
		return false
	}
	s := l.shedStates[routeClass{w.Route, w.Class}]
	return s != nil && now.Sub(s.seen) <= stateLifetime && s.usage >= s.limit
}

// Serve lets in who has room, each in turn, and sheds whose wait is over. It is called
// when there may be more room, and every now and then.
func (l *Queue) Serve(now time.Time) {
	l.current = nil
	l.expire(now)
	l.failedTickets = l.failedTickets[:0]
	vain := 0
	for w := l.next(now); w != nil; w = l.next(now) {
		err := l.try(w, l.maxUsage(w, now), now)
		if errors.Is(err, pool.ErrFull) {
			if !w.lastFull.FreeElsewhere {
				vain++
			}
			if l.failedTickets = append(l.failedTickets, w); vain == maxFailedTries || len(l.failedTickets) == maxTriesPerPass {
				break
			}
			continue
		}
		l.waiting[w.rank()].served(w)
		l.finish(w, err)
	}
	clear(l.failedTickets)
	l.serveStarved(now)
}

// next is whose turn it is in this look: the first of the highest class that waits, or
// who may pass those that were tried in vain. nil is nobody.
func (l *Queue) next(now time.Time) *Ticket {
	if len(l.failedTickets) == 0 {
		return l.first()
	}
	before := l.failedTickets[:len(l.failedTickets):len(l.failedTickets)] // whoever is passed must let that happen
	for c := midStreamRank; c >= identity.Low; c-- {
		for _, w := range l.waiting[c].candidates() {
			switch {
			case slices.Contains(l.failedTickets, w):
			case mayPassAll(w, before, now):
				return w
			default:
				before = append(before, w)
			}
		}
	}
	return nil
}

// first is the first of the highest class that waits.
func (l *Queue) first() *Ticket {
	for c := midStreamRank; c >= identity.Low; c-- {
		if w := l.waiting[c].first(); w != nil {
			return w
		}
	}
	return nil
}

// mayPassAll reports whether everybody before w lets it pass.
func mayPassAll(w *Ticket, before []*Ticket, now time.Time) bool {
	for _, b := range before {
		if !b.allowsPassing(w.Tokens, now) {
			return false
		}
	}
	return true
}

// serveStarved tries the first of the lowest class that waits with the room of the class
// above, now and then: where higher classes keep a pool just above its threshold for
// minutes, it would never come to its turn.
func (l *Queue) serveStarved(now time.Time) {
	if now.Sub(l.starvedServedAt) < starvationInterval {
		return
	}
	for c := identity.Low; c < identity.High; c++ {
		w := l.waiting[c].first()
		if w == nil {
			continue
		}
		l.current = w
		usage := max(w.Config.Threshold(c), w.Config.Threshold(c+1)) // the class above may be closed: 0 would be no limit
		at := w.limit(usage, now)
		at.MaxQueue = 0
		if err := w.Try(at); !errors.Is(err, pool.ErrFull) {
			l.starvedServedAt = now
			l.waiting[c].served(w)
			l.finish(w, err)
		}
		return
	}
}

// expire ends the waits that are over.
func (l *Queue) expire(now time.Time) {
	for c := range l.waiting {
		for _, w := range l.waiting[c].expired(func(w *Ticket) bool {
			return !now.Before(w.deadline) || l.aboveThreshold(w, now)
		}) {
			l.waiting[c].leave(w) // one at a time: should this panic, the others are still there
			l.endWait(w, now)
		}
	}
}

// endWait ends a wait that was in vain. A request that needs most of a backend's memory
// finds it free only where the others end at once: it is let in by what is in use, and
// waits in the engine.
func (l *Queue) endWait(w *Ticket, now time.Time) {
	l.current = w
	switch {
	case w.MidStream:
		l.finish(w, w.Try(pool.Admission{}))
	case w.lastFull.Large && w.Config.Forecast:
		err := w.Try(pool.Admission{MaxUsage: w.Config.Threshold(w.Class), Now: true})
		if errors.Is(err, pool.ErrFull) {
			l.refuse(w, now)
			return
		}
		l.finish(w, err)
	default:
		l.placeElsewhereOrRefuse(w, now)
	}
}

// placeElsewhereOrRefuse refuses w, unless there is room for it where it is not warm.
func (l *Queue) placeElsewhereOrRefuse(w *Ticket, now time.Time) {
	if w.lastFull.FreeElsewhere {
		w.deadline = now // it is patient no more
		if err := l.try(w, l.maxUsage(w, now), now); !errors.Is(err, pool.ErrFull) {
			l.finish(w, err)
			return
		}
	}
	l.refuse(w, now)
}

// finish tells w what came of it.
func (l *Queue) finish(w *Ticket, err error) {
	l.current = nil
	w.Done(err)
}

// Leave takes w out, whose client has left, and reports whether it was still waiting;
// its Done is not called.
func (l *Queue) Leave(w *Ticket) bool { return l.waiting[w.rank()].leave(w) }

// limit is what w may ask of a backend. While it may still wait it is patient: it waits for
// room where it is warm as long as that costs less than to go elsewhere.
func (w *Ticket) limit(limit float64, now time.Time) pool.Admission {
	at := pool.Admission{MaxUsage: limit, MaxQueue: w.Config.queue(w.Class), Now: !w.Config.Forecast, Patient: !w.NoWait && !w.MidStream && now.Before(w.deadline)}
	if !w.warmWaitSince.IsZero() {
		at.Waited = now.Sub(w.warmWaitSince)
	}
	return at
}

// try takes a place for w, and notes whether its class, and those below, are shed.
func (l *Queue) try(w *Ticket, limit float64, now time.Time) error {
	l.current = w
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
				l.recordUsage(routeClass{w.Route, c}, full.Usage, l.threshold(w.Config, w.Route, c, now), now)
			}
		}
	case err == nil && !w.MidStream:
		l.recordUsage(routeClass{w.Route, w.Class}, 0, limit, now)
		if a := l.shedPeriods[routeClass{w.Route, w.Class}]; a != nil {
			a.admit(w.arrived)
		}
	}
	return err
}

func (l *Queue) random() float64 {
	if l.Rand == nil {
		return rand.Float64()
	}
	return l.Rand()
}

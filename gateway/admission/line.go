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
	// fewWaiting is how many waiting requests of one tenant are few.
	fewWaiting = 16
	// maxTries bounds how many requests one look tries in vain.
	maxTries = 8
	// maxLooks bounds how many it tries at all: those that wait for the backend where they
	// are warm do not count as in vain, they hold nobody up.
	maxLooks = 64
	// muchSmaller is how many times smaller a request is that may pass one for which
	// there is no room.
	muchSmaller = 4
	// trickleEvery is how often one of the lowest class that waits may use the room of
	// the next class, so that it does not starve.
	trickleEvery = 2 * time.Second
	// mustWait is how long a request whose answer has begun waits: its client sees
	// silence.
	mustWait = 2 * time.Second
)

// must is the rank of requests whose answer has begun: above all classes.
const must = identity.High + 1

// Waiter is one request that asks for a place. It is used for one [Line.Enter].
type Waiter struct {
	Route  string
	Class  identity.Priority
	Tenant string
	Tokens int // that it asks for; tenants take turns by them
	Config Config
	Waited time.Duration // before, at this pool: for its other tries

	Now  bool // it does not wait
	Must bool // its answer has begun: it goes first, and enters at the end of its wait whatever the pool says

	// Try takes a place at a backend that is no fuller than the limit, or returns a
	// *pool.FullError where there is none such.
	Try func(pool.Admission) error
	// Done is told once what came of it: nil, an error of Try's, or a *ShedError. It is
	// called within the line's own methods.
	Done func(error)

	came    time.Time
	until   time.Time
	reserve time.Time      // from then on nobody passes it
	last    pool.FullError // why it waits
	warm    time.Time      // since when it waits for the backend where it is warm, although there is room elsewhere; zero: it does not
}

// rank is the class by which it is served.
func (w *Waiter) rank() identity.Priority {
	if w.Must {
		return must
	}
	return w.Class
}

// wait is how long it may wait.
func (w *Waiter) wait() time.Duration {
	wait := w.Config.Wait(w.Class)
	if w.Must {
		wait = min(w.Config.MaxWaitHigh, mustWait)
	}
	return max(wait-w.Waited, 0)
}

// Line is who waits for room at one pool, and which classes are shed there. It has no
// clock and no lock; the zero value works.
type Line struct {
	Pool string
	Rand func() float64 // uniform in [0, 1), for the spread of Retry-After; nil is math/rand/v2

	waiting  [must + 1]queue
	tried    []*Waiter // memory of one look: who found no room
	serving  *Waiter   // whom the last look has come to, until it is told what came of it
	shedding map[place]*state
	absent   map[place]*absence
	flips    int // of all of these
	trickled time.Time
}

// Waiting is how many requests of a class wait; those whose answer has begun count as
// high.
func (l *Line) Waiting(class identity.Priority) int {
	if class == identity.High {
		return l.waiting[class].n + l.waiting[must].n
	}
	return l.waiting[class].n
}

// All is how many requests wait.
func (l *Line) All() int {
	n := 0
	for i := range l.waiting {
		n += l.waiting[i].n
	}
	return n
}

// Enter lets w in where there is room and nobody waits whose turn is before its own.
// Else it waits; its Done is told later, by [Line.Serve].
func (l *Line) Enter(w *Waiter, now time.Time) {
	if w.Config.Threshold(w.Class) <= 0 && !w.Must { // the operator's kill switch
		w.Done(&ShedError{Decision{Pool: l.Pool, Class: w.Class, Reason: ReasonKV, RetryAfter: RetryAfter(retryClosed, l.random())}})
		return
	}
	w.last, w.came = pool.FullError{Pool: l.Pool}, now
	wait := w.wait()
	w.until, w.reserve = now.Add(wait), now.Add(wait/2)
	if l.mayPass(w, now) {
		if err := l.try(w, l.limit(w, now), now); !errors.Is(err, pool.ErrFull) {
			w.Done(err)
			return
		}
	}
	crowd := l.waiting[w.rank()].crowded(w)
	switch {
	case w.Now:
		w.Done(&w.last)
	case w.Must && (wait <= 0 || crowd):
		w.Done(w.Try(pool.Admission{}))
	case !w.Must && (wait <= 0 || crowd || l.vain(w, wait) || l.above(w, now)):
		l.giveUp(w, now)
	default:
		l.waiting[w.rank()].join(w)
	}
}

// mayPass reports whether w need not queue: nobody of its class or a higher one waits,
// or only such as are much larger and have found no room. A prompt that fits nowhere
// must not hold up all that would fit; half of its wait, and then everybody waits for it.
func (l *Line) mayPass(w *Waiter, now time.Time) bool {
	for c := w.rank(); c <= must; c++ {
		for _, t := range l.waiting[c].tenants {
			if i := t.patient(); i < len(t.waiters) && !t.waiters[i].lets(w.Tokens, now) {
				return false
			}
		}
	}
	return true
}

// lets reports whether a request of so many tokens may pass w, which found no room, or not
// where it is warm.
func (w *Waiter) lets(tokens int, now time.Time) bool {
	return w.last.FreeElsewhere || w.last.Limit > 0 && now.Before(w.reserve) && tokens < w.Tokens/muchSmaller
}

// vain reports whether room is not to be expected within w's wait. High waits all the
// same: what a pool tells of itself may be wrong.
func (l *Line) vain(w *Waiter, wait time.Duration) bool {
	return w.Class < identity.High && w.last.Wait > wait
}

// above reports whether the KV usage of every backend is above the threshold of w's class,
// as far as known: then it does not wait. No usage is above a threshold of 1. Who has
// begun to answer waits all the same.
func (l *Line) above(w *Waiter, now time.Time) bool {
	if w.Must || w.Config.Threshold(w.Class) >= 1 {
		return false
	}
	s := l.shedding[place{w.Route, w.Class}]
	return s != nil && now.Sub(s.seen) <= confirmed && s.usage >= s.limit
}

// Serve lets in who has room, each in turn, and sheds whose wait is over. It is called
// when there may be more room, and every now and then.
func (l *Line) Serve(now time.Time) {
	l.serving = nil
	l.expire(now)
	l.tried = l.tried[:0]
	vain := 0
	for w := l.next(now); w != nil; w = l.next(now) {
		err := l.try(w, l.limit(w, now), now)
		if errors.Is(err, pool.ErrFull) {
			if !w.last.FreeElsewhere {
				vain++
			}
			if l.tried = append(l.tried, w); vain == maxTries || len(l.tried) == maxLooks {
				break
			}
			continue
		}
		l.waiting[w.rank()].served(w)
		l.done(w, err)
	}
	clear(l.tried)
	l.trickle(now)
}

// next is whose turn it is in this look: the first of the highest class that waits, or
// who may pass those that were tried in vain. nil is nobody.
func (l *Line) next(now time.Time) *Waiter {
	if len(l.tried) == 0 {
		return l.head()
	}
	before := l.tried[:len(l.tried):len(l.tried)] // whoever is passed must let that happen
	for c := must; c >= identity.Low; c-- {
		for _, w := range l.waiting[c].heads() {
			switch {
			case slices.Contains(l.tried, w):
			case passes(w, before, now):
				return w
			default:
				before = append(before, w)
			}
		}
	}
	return nil
}

// head is the first of the highest class that waits.
func (l *Line) head() *Waiter {
	for c := must; c >= identity.Low; c-- {
		if w := l.waiting[c].head(); w != nil {
			return w
		}
	}
	return nil
}

// passes reports whether everybody before w lets it pass.
func passes(w *Waiter, before []*Waiter, now time.Time) bool {
	for _, b := range before {
		if !b.lets(w.Tokens, now) {
			return false
		}
	}
	return true
}

// trickle tries the first of the lowest class that waits with the room of the class
// above, now and then: where higher classes keep a pool just above its threshold for
// minutes, it would never come to its turn.
func (l *Line) trickle(now time.Time) {
	if now.Sub(l.trickled) < trickleEvery {
		return
	}
	for c := identity.Low; c < identity.High; c++ {
		w := l.waiting[c].head()
		if w == nil {
			continue
		}
		l.serving = w
		usage := max(w.Config.Threshold(c), w.Config.Threshold(c+1)) // the class above may be closed: 0 would be no limit
		at := w.at(usage, now)
		at.MaxQueue = 0
		if err := w.Try(at); !errors.Is(err, pool.ErrFull) {
			l.trickled = now
			l.waiting[c].served(w)
			l.done(w, err)
		}
		return
	}
}

// expire ends the waits that are over.
func (l *Line) expire(now time.Time) {
	for c := range l.waiting {
		for _, w := range l.waiting[c].over(func(w *Waiter) bool {
			return !now.Before(w.until) || l.above(w, now)
		}) {
			l.waiting[c].leave(w) // one at a time: should this panic, the others are still there
			l.end(w, now)
		}
	}
}

// end ends a wait that was in vain. A request that needs most of a backend's memory
// finds it free only where the others end at once: it is let in by what is in use, and
// waits in the engine.
func (l *Line) end(w *Waiter, now time.Time) {
	l.serving = w
	switch {
	case w.Must:
		l.done(w, w.Try(pool.Admission{}))
	case w.last.Large && w.Config.Forecast:
		err := w.Try(pool.Admission{MaxUsage: w.Config.Threshold(w.Class), Now: true})
		if errors.Is(err, pool.ErrFull) {
			l.refuse(w, now)
			return
		}
		l.done(w, err)
	default:
		l.giveUp(w, now)
	}
}

// giveUp refuses w, unless there is room for it where it is not warm.
func (l *Line) giveUp(w *Waiter, now time.Time) {
	if w.last.FreeElsewhere {
		w.until = now // it is patient no more
		if err := l.try(w, l.limit(w, now), now); !errors.Is(err, pool.ErrFull) {
			l.done(w, err)
			return
		}
	}
	l.refuse(w, now)
}

// done tells w what came of it.
func (l *Line) done(w *Waiter, err error) {
	l.serving = nil
	w.Done(err)
}

// Leave takes w out, whose client has left, and reports whether it was still waiting;
// its Done is not called.
func (l *Line) Leave(w *Waiter) bool { return l.waiting[w.rank()].leave(w) }

// at is what w may ask of a backend. While it may still wait it is patient: it waits for
// room where it is warm as long as that costs less than to go elsewhere.
func (w *Waiter) at(limit float64, now time.Time) pool.Admission {
	at := pool.Admission{MaxUsage: limit, MaxQueue: w.Config.queue(w.Class), Now: !w.Config.Forecast, Patient: !w.Now && !w.Must && now.Before(w.until)}
	if !w.warm.IsZero() {
		at.Waited = now.Sub(w.warm)
	}
	return at
}

// try takes a place for w, and notes whether its class, and those below, are shed.
func (l *Line) try(w *Waiter, limit float64, now time.Time) error {
	l.serving = w
	at := w.at(limit, now)
	if limit >= 1 && !w.Config.Forecast {
		at = pool.Admission{} // it is let in whatever there is
	}
	err := w.Try(at)
	full, ok := errors.AsType[*pool.FullError](err)
	if ok {
		w.last = *full
		if full.FreeElsewhere && w.warm.IsZero() {
			w.warm = now
		}
	}
	switch {
	case ok && full.Partial: // what is left after its other tries says nothing of the pool
	case ok:
		for c := identity.Low; c <= w.Class; c++ { // lower classes may not come to a try of their own
			if c < w.Class || !w.Must {
				l.note(place{w.Route, c}, full.Usage, l.threshold(w.Config, w.Route, c, now), now)
			}
		}
	case err == nil && !w.Must:
		l.note(place{w.Route, w.Class}, 0, limit, now)
		if a := l.absent[place{w.Route, w.Class}]; a != nil {
			a.admit(w.came)
		}
	}
	return err
}

func (l *Line) random() float64 {
	if l.Rand == nil {
		return rand.Float64()
	}
	return l.Rand()
}

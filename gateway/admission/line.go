package admission

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	// mostWaiting bounds those of one class who wait for one pool. At the 30 s that high
	// waits at most it is 34 requests a second.
	mostWaiting = 1024
	// dwell is the least time between two flips of a class between shed and not.
	dwell = time.Second
	// trickleEvery is how often one of the lowest class that waits may use the room of
	// the next class, so that it does not starve.
	trickleEvery = 2 * time.Second
)

// Waiter is one request that asks for a place. It is used for one [Line.Enter].
type Waiter struct {
	Route  string
	Class  identity.Priority
	Tenant string
	Tokens int // that it asks for; tenants take turns by them
	Config Config

	Now  bool // it does not wait
	Must bool // its answer has begun: it goes first, and enters at the end of its wait whatever the pool says

	// Try takes a place at a backend that is no fuller than the limit, or returns a
	// *pool.FullError where there is none such.
	Try func(pool.Limit) error
	// Done is told once what came of it: nil, an error of Try's, or a *ShedError. It is
	// called within the line's own methods.
	Done func(error)

	until time.Time
	last  pool.FullError // why it waits
}

// rank is the class by which it is served.
func (w *Waiter) rank() identity.Priority {
	if w.Must {
		return identity.High
	}
	return w.Class
}

// Line is who waits for room at one pool, and which classes are shed there. It has no
// clock and no lock; the zero value works.
type Line struct {
	Pool string
	Rand func() float64 // uniform in [0, 1), for the spread of Retry-After; nil is math/rand/v2

	waiting  [identity.High + 1]queue
	shedding map[place]*state
	flips    int // of all of these
	trickled time.Time
}

// place is what is shed: thresholds are set by route.
type place struct {
	route string
	class identity.Priority
}

// state is whether a class is shed, and since when it is so.
type state struct {
	shed  bool
	since time.Time
	flips int
}

// Waiting is how many requests of a class wait.
func (l *Line) Waiting(class identity.Priority) int { return l.waiting[class].n }

// All is how many requests wait.
func (l *Line) All() int {
	n := 0
	for i := range l.waiting {
		n += l.waiting[i].n
	}
	return n
}

// Shedding reports whether a class of a route is shed, and Flips how often that has
// changed.
func (l *Line) Shedding(route string, class identity.Priority) bool {
	s := l.shedding[place{route, class}]
	return s != nil && s.shed
}

// Flips is how often a class of a route began or ended to be shed.
func (l *Line) Flips(route string, class identity.Priority) int {
	if s := l.shedding[place{route, class}]; s != nil {
		return s.flips
	}
	return 0
}

// classes are those that are shed for some route.
func (l *Line) classes() []identity.Priority {
	var out []identity.Priority
	for c := identity.Low; c <= identity.High; c++ {
		for p, s := range l.shedding {
			if p.class == c && s.shed {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// Enter lets w in where there is room and nobody waits whose turn is before its own.
// Else it waits; its Done is told later, by [Line.Serve].
func (l *Line) Enter(w *Waiter, now time.Time) {
	if w.Config.Threshold(w.Class) <= 0 && !w.Must { // the operator's kill switch
		w.Done(&ShedError{Decision{Pool: l.Pool, Class: w.Class, Reason: ReasonKV, RetryAfter: retryMax * time.Second}})
		return
	}
	w.last = pool.FullError{Pool: l.Pool}
	if !l.before(w) {
		if err := l.try(w, l.limit(w), now); !errors.Is(err, pool.ErrFull) {
			w.Done(err)
			return
		}
	}
	wait := w.Config.Wait(w.rank())
	crowd := l.waiting[w.rank()].n >= mostWaiting
	switch {
	case w.Now:
		w.Done(&w.last)
		return
	case w.Must && (wait <= 0 || crowd):
		w.Done(w.Try(pool.Limit{}))
		return
	case !w.Must && (wait <= 0 || crowd || w.last.Wait > wait || l.impatient(w, now)): // it would wait in vain
		l.refuse(w)
		return
	}
	w.until = now.Add(wait)
	l.waiting[w.rank()].join(w)
}

// impatient reports whether w's class does not wait: it has been above its threshold for
// so long that room is not to be expected.
func (l *Line) impatient(w *Waiter, now time.Time) bool {
	s := l.shedding[place{w.Route, w.Class}]
	return w.Class == identity.Low && !w.Must && s != nil && s.shed && now.Sub(s.since) >= w.Config.Patience
}

// before reports whether somebody waits whose turn is before w's.
func (l *Line) before(w *Waiter) bool {
	for c := w.rank(); c <= identity.High; c++ {
		if l.waiting[c].n > 0 {
			return true
		}
	}
	return false
}

// Serve lets in who has room, each in turn, and sheds whose wait is over. It is called
// when there may be more room, and every now and then.
func (l *Line) Serve(now time.Time) {
	l.expire(now)
	for w := l.head(); w != nil; w = l.head() {
		err := l.try(w, l.limit(w), now)
		if errors.Is(err, pool.ErrFull) {
			break
		}
		l.waiting[w.rank()].served(w)
		w.Done(err)
	}
	l.trickle(now)
}

// head is whose turn it is: of the highest class that waits.
func (l *Line) head() *Waiter {
	for c := identity.High; c >= identity.Low; c-- {
		if w := l.waiting[c].head(); w != nil {
			return w
		}
	}
	return nil
}

// trickle tries one of the lowest class that waits with the room of the class above,
// now and then: where higher classes keep a pool just above its threshold for minutes,
// it would never come to its turn.
func (l *Line) trickle(now time.Time) {
	if now.Sub(l.trickled) < trickleEvery {
		return
	}
	for c := identity.Low; c < identity.High; c++ {
		w := l.waiting[c].head()
		if w == nil {
			continue
		}
		usage := max(w.Config.Threshold(c), w.Config.Threshold(c+1)) // the class above may be closed: 0 would be no limit
		if err := w.Try(pool.Limit{Usage: usage, Now: !w.Config.Foresee}); !errors.Is(err, pool.ErrFull) {
			l.trickled = now
			l.waiting[c].served(w)
			w.Done(err)
		}
		return
	}
}

// expire ends the waits that are over.
func (l *Line) expire(now time.Time) {
	for c := range l.waiting {
		for _, w := range l.waiting[c].over(func(w *Waiter) bool { return !now.Before(w.until) || l.impatient(w, now) }) {
			if !w.Must {
				l.refuse(w)
				continue
			}
			w.Done(w.Try(pool.Limit{}))
		}
	}
}

// Leave takes w out, whose client has left, and reports whether it was still waiting;
// its Done is not called.
func (l *Line) Leave(w *Waiter) bool { return l.waiting[w.rank()].leave(w) }

// try takes a place for w, and notes whether its class is shed.
func (l *Line) try(w *Waiter, limit float64, now time.Time) error {
	at := pool.Limit{Usage: limit, Queue: w.Config.queue(w.Class), Now: !w.Config.Foresee}
	if limit >= 1 && !w.Config.Foresee {
		at = pool.Limit{} // it is let in whatever there is
	}
	err := w.Try(at)
	full, ok := errors.AsType[*pool.FullError](err)
	if ok {
		w.last = *full
	}
	if !w.Must && (ok || err == nil) {
		l.note(place{w.Route, w.Class}, ok && full.Usage >= limit, now)
	}
	if ok { // lower classes may not come to a try of their own
		for c := identity.Low; c < w.Class; c++ {
			l.note(place{w.Route, c}, full.Usage >= l.threshold(w.Config, w.Route, c), now)
		}
	}
	return err
}

// limit is how far w may fill a backend: less while its class is shed.
func (l *Line) limit(w *Waiter) float64 {
	if w.Must {
		return max(w.Config.High, w.Config.Threshold(w.Class))
	}
	return l.threshold(w.Config, w.Route, w.Class)
}

// threshold is the KV usage at which a class is shed, or comes back.
func (l *Line) threshold(c Config, route string, class identity.Priority) float64 {
	threshold := c.Threshold(class)
	if l.Shedding(route, class) && c.Release < threshold {
		threshold -= c.Release
	}
	return threshold
}

// mostPlaces bounds the memory; routes come from the configuration, so it is never
// reached.
const mostPlaces = 4096

// note remembers that a class found every backend above its limit, or room.
func (l *Line) note(p place, shed bool, now time.Time) {
	s := l.shedding[p]
	switch {
	case s == nil && (!shed || len(l.shedding) >= mostPlaces):
		return
	case s == nil:
		if l.shedding == nil {
			l.shedding = map[place]*state{}
		}
		s = &state{}
		l.shedding[p] = s
	}
	if s.shed != shed && (s.since.IsZero() || now.Sub(s.since) >= dwell) {
		s.shed, s.since = shed, now
		s.flips++
		l.flips++
	}
}

// refuse sheds w.
func (l *Line) refuse(w *Waiter) { w.Done(&ShedError{l.decide(w)}) }

// decide words why w is shed.
func (l *Line) decide(w *Waiter) Decision {
	d := Decision{Pool: l.Pool, Class: w.Class, Usage: w.last.Usage, Threshold: w.last.Limit, Reason: ReasonKV}
	switch f := &w.last; {
	case f.Limit == 0: // it never came to its turn
		d.Reason, d.Usage, d.Threshold = ReasonLine, float64(l.All()), 0
	case f.Usage >= f.Limit:
	case f.Queue > 0 && f.Waiting > f.Queue:
		d.Reason, d.Usage, d.Threshold = ReasonQueue, float64(f.Waiting), float64(f.Queue)
	default:
		d.Reason, d.Usage = ReasonGrowth, f.Peak
	}
	d.RetryAfter = RetryAfter(w.last.Wait, l.random())
	return d
}

func (l *Line) random() float64 {
	if l.Rand == nil {
		return rand.Float64()
	}
	return l.Rand()
}

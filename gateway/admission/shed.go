package admission

import (
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	// dwell is the least time between two flips of a class between shed and not.
	dwell = time.Second
	// confirmed is how long a class counts as shed of which nothing is heard.
	confirmed = 5 * time.Second
	// maxPlaces bounds the memory; routes come from the configuration, so it is never
	// reached.
	maxPlaces = 4096
)

// place is what is shed: thresholds are set by route.
type place struct {
	route string
	class identity.Priority
}

// state is whether a class is shed, since when it is so, and when that was last seen.
type state struct {
	shed        bool
	since, seen time.Time
	usage       float64 // the least KV usage then
	limit       float64 // what it was compared with
	flips       int
}

// state is that of a class; nil is not shed.
func (l *Line) state(route string, class identity.Priority, now time.Time) *state {
	s := l.shedding[place{route, class}]
	if s == nil || !s.shed || now.Sub(s.seen) > confirmed {
		return nil
	}
	return s
}

// Shedding reports whether a class of a route is shed.
func (l *Line) Shedding(route string, class identity.Priority, now time.Time) bool {
	return l.state(route, class, now) != nil
}

// Flips is how often a class of a route began or ended to be shed.
func (l *Line) Flips(route string, class identity.Priority) int {
	if s := l.shedding[place{route, class}]; s != nil {
		return s.flips
	}
	return 0
}

// classes are those that are shed for some route.
func (l *Line) classes(now time.Time) []identity.Priority {
	var out []identity.Priority
	for c := identity.Low; c <= identity.High; c++ {
		for p := range l.shedding {
			if p.class == c && l.Shedding(p.route, c, now) {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// limit is how far w may fill a backend: less while its class is shed.
func (l *Line) limit(w *Waiter, now time.Time) float64 {
	if w.Must {
		return max(w.Config.High, w.Config.Threshold(w.Class))
	}
	return l.threshold(w.Config, w.Route, w.Class, now)
}

// threshold is the KV usage at which a class is shed, or comes back.
func (l *Line) threshold(c Config, route string, class identity.Priority, now time.Time) float64 {
	threshold := c.Threshold(class)
	if l.Shedding(route, class, now) && c.Hysteresis < threshold {
		threshold -= c.Hysteresis
	}
	return threshold
}

// note remembers that a class found a KV usage of at least so much, against a limit; 0
// is room.
func (l *Line) note(p place, usage, limit float64, now time.Time) {
	s, shed := l.shedding[p], usage >= limit
	switch {
	case s == nil && (!shed || len(l.shedding) >= maxPlaces):
		return
	case s == nil:
		if l.shedding == nil {
			l.shedding = map[place]*state{}
		}
		s = &state{}
		l.shedding[p] = s
	case s.shed && now.Sub(s.seen) > confirmed: // it ended unseen
		s.shed = false
		s.flips++
		l.flips++
	}
	s.seen, s.usage, s.limit = now, usage, limit
	if s.shed != shed && (s.since.IsZero() || now.Sub(s.since) >= dwell) {
		s.shed, s.since = shed, now
		s.flips++
		l.flips++
	}
}

// refuse sheds w.
func (l *Line) refuse(w *Waiter, now time.Time) {
	d := l.decide(w)
	d.RetryAfter = RetryAfter(l.comeback(w, now), l.random())
	l.done(w, &ShedError{d})
}

// comeback is how long it is expected to be until one like w is let in, which is refused;
// 0 is not known.
func (l *Line) comeback(w *Waiter, now time.Time) time.Duration {
	p := place{w.Route, w.Class}
	a := l.absent[p]
	switch {
	case a == nil && len(l.absent) >= maxPlaces:
		return w.last.Wait
	case a == nil:
		if l.absent == nil {
			l.absent = map[place]*absence{}
		}
		a = &absence{}
		l.absent[p] = a
	}
	a.refuse(now)
	return a.left(w.last.Wait)
}

// decide words why w is shed.
func (l *Line) decide(w *Waiter) Decision {
	d := Decision{Pool: l.Pool, Class: w.Class, Usage: w.last.Usage, Threshold: w.last.Limit, Reason: ReasonKV}
	shed := l.shedding[place{w.Route, w.Class}]
	switch f := &w.last; {
	case f.Limit == 0 && shed != nil && shed.shed: // its turn never came, others of its class were tried
		d.Usage, d.Threshold = shed.usage, shed.limit
	case f.Limit == 0:
		d.Reason, d.Usage, d.Threshold = ReasonLine, float64(l.All()), maxWaiting
	case f.Usage >= f.Limit:
	case f.Queue > 0 && f.Waiting > f.Queue:
		d.Reason, d.Usage, d.Threshold = ReasonQueue, float64(f.Waiting), float64(f.Queue)
	default:
		d.Reason, d.Usage, d.Threshold = ReasonGrowth, f.Peak, f.PeakLimit
	}
	return d
}

package admission

import (
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	// minFlipInterval is the minimum time between two changes of a class between shed and not shed.
	minFlipInterval = time.Second
	// stateLifetime is how long a class counts as shed without new requests.
	stateLifetime = 5 * time.Second
	// maxRouteClasses bounds the memory. It is never reached, because routes come from the configuration.
	maxRouteClasses = 4096
)

// routeClass is the unit of shedding: thresholds are set per route.
type routeClass struct {
	route string
	class identity.Priority
}

// shedState records whether a class is shed, since when, and when a request last confirmed it.
type shedState struct {
	shed        bool
	since, seen time.Time
	usage       float64 // lowest KV usage at that time
	limit       float64 // the threshold that it was compared with
}

// state returns the state of a class; nil is not shed.
func (l *Queue) state(route string, class identity.Priority, now time.Time) *shedState {
	s := l.shedStates[routeClass{route, class}]
	if s == nil || !s.shed || now.Sub(s.seen) > stateLifetime {
		return nil
	}
	return s
}

// Shedding reports whether a class of a route is shed.
func (l *Queue) Shedding(route string, class identity.Priority, now time.Time) bool {
	return l.state(route, class, now) != nil
}

// shedClasses returns the classes that are shed for some route.
func (l *Queue) shedClasses(now time.Time) []identity.Priority {
	var out []identity.Priority
	for c := identity.Low; c <= identity.High; c++ {
		for p := range l.shedStates {
			if p.class == c && l.Shedding(p.route, c, now) {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// maxUsage is how far w may fill a backend: less while its class is shed.
func (l *Queue) maxUsage(w *Ticket, now time.Time) float64 {
	if w.MidStream {
		return max(w.Config.High, w.Config.Threshold(w.Class))
	}
	return l.threshold(w.Config, w.Route, w.Class, now)
}

// threshold is the KV usage at which a class starts to be shed, or stops.
func (l *Queue) threshold(c Config, route string, class identity.Priority, now time.Time) float64 {
	threshold := c.Threshold(class)
	if l.Shedding(route, class, now) && c.Hysteresis < threshold {
		threshold -= c.Hysteresis
	}
	return threshold
}

// recordUsage records that a class found a KV usage of at least this value, against a limit; 0 means there
// was capacity.
func (l *Queue) recordUsage(p routeClass, usage, limit float64, now time.Time) {
	s, shed := l.shedStates[p], usage >= limit
	switch {
	case s == nil && (!shed || len(l.shedStates) >= maxRouteClasses):
		return
	case s == nil:
		if l.shedStates == nil {
			l.shedStates = map[routeClass]*shedState{}
		}
		s = &shedState{}
		l.shedStates[p] = s
	case s.shed && now.Sub(s.seen) > stateLifetime: // it ended, and no request noticed
		s.shed = false
		l.flips++
	}
	s.seen, s.usage, s.limit = now, usage, limit
	if s.shed != shed && (s.since.IsZero() || now.Sub(s.since) >= minFlipInterval) {
		s.shed, s.since = shed, now
		l.flips++
	}
}

// refuse sheds w.
func (l *Queue) refuse(w *Ticket, now time.Time) {
	d := l.decisionFor(w)
	d.RetryAfter = RetryAfter(l.expectedShedTime(w, now), l.random())
	l.finish(w, &ShedError{d})
}

// expectedShedTime is the expected time until a request like w, which is refused, would be admitted; 0 is
// unknown.
func (l *Queue) expectedShedTime(w *Ticket, now time.Time) time.Duration {
	p := routeClass{w.Route, w.Class}
	a := l.shedPeriods[p]
	switch {
	case a == nil && len(l.shedPeriods) >= maxRouteClasses:
		return w.lastFull.Wait
	case a == nil:
		if l.shedPeriods == nil {
			l.shedPeriods = map[routeClass]*shedPeriod{}
		}
		a = &shedPeriod{}
		l.shedPeriods[p] = a
	}
	a.refuse(now)
	return a.remaining(w.lastFull.Wait)
}

// decisionFor returns the reason why w is shed.
func (l *Queue) decisionFor(w *Ticket) Decision {
	d := Decision{Pool: l.Pool, Class: w.Class, Usage: w.lastFull.Usage, Threshold: w.lastFull.Limit, Reason: ReasonKV}
	shed := l.shedStates[routeClass{w.Route, w.Class}]
	switch f := &w.lastFull; {
	case f.Limit == 0 && shed != nil && shed.shed: // it was never tried; others of its class were
		d.Usage, d.Threshold = shed.usage, shed.limit
	case f.Limit == 0:
		d.Reason, d.Usage, d.Threshold = ReasonQueueFull, float64(l.Len()), maxWaiting
	case f.Usage >= f.Limit:
	case f.Queue > 0 && f.Waiting > f.Queue:
		d.Reason, d.Usage, d.Threshold = ReasonBackendQueue, float64(f.Waiting), float64(f.Queue)
	default:
		d.Reason, d.Usage, d.Threshold = ReasonGrowth, f.Peak, f.PeakLimit
	}
	return d
}

package admission

import (
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	// minFlipInterval is the minimum time between two changes of a class between shed and not shed.
	minFlipInterval = time.Second
	// stateLifetime is how long a class counts as shed without new requests.
	stateLifetime = 5 * time.Second
	// maxEstimate bounds the pool's estimate of the time until there is capacity, beside the time that a class is shed already.
	maxEstimate = 5 * time.Second
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

// state returns the state of a class. Routes come from the configuration, so there are few.
func (q *Queue) state(route string, class identity.Priority) *shedState {
	p := routeClass{route, class}
	s := q.shedStates[p]
	if s == nil {
		if q.shedStates == nil {
			q.shedStates = map[routeClass]*shedState{}
		}
		s = &shedState{}
		q.shedStates[p] = s
	}
	return s
}

// current tells whether a request confirmed the state lately.
func (s *shedState) current(now time.Time) bool { return now.Sub(s.seen) <= stateLifetime }

// Shedding reports whether a class of a route is shed.
func (q *Queue) Shedding(route string, class identity.Priority, now time.Time) bool {
	s := q.state(route, class)
	return s.shed && s.current(now)
}

// shedClasses returns the classes that are shed for some route, sorted.
func (q *Queue) shedClasses(now time.Time) (out []identity.Priority) {
	for p, s := range q.shedStates {
		if s.shed && s.current(now) {
			out = append(out, p.class)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxUsage is how far w may fill a backend: less while its class is shed.
func (q *Queue) maxUsage(w *Ticket, now time.Time) float64 {
	if w.MidStream {
		return max(w.Config.Threshold[identity.High], w.Config.Threshold[w.Class])
	}
	return q.threshold(w.Config, w.Route, w.Class, now)
}

// threshold is the KV usage at which a class starts to be shed, or stops.
func (q *Queue) threshold(c Config, route string, class identity.Priority, now time.Time) float64 {
	threshold := c.Threshold[class]
	if q.Shedding(route, class, now) && c.Hysteresis < threshold {
		threshold -= c.Hysteresis
	}
	return threshold
}

// record records that a class found a KV usage of at least this value, against a limit; 0 means there was capacity.
func (q *Queue) record(s *shedState, usage, limit float64, now time.Time) {
	shed := usage >= limit
	s.shed = s.shed && s.current(now) // else it ended, and no request noticed
	s.seen, s.usage, s.limit = now, usage, limit
	if s.shed != shed && (s.since.IsZero() || now.Sub(s.since) >= minFlipInterval) {
		s.shed, s.since = shed, now
	}
}

// refuse sheds w.
func (q *Queue) refuse(w *Ticket, now time.Time) {
	s := q.state(w.Route, w.Class)
	e, lasted := q.reasonFor(w, s), time.Duration(0)
	if s.shed {
		lasted = now.Sub(s.since)
	}
	// The pool's estimate ignores requests that arrive meanwhile; what has lasted for long is likely to continue.
	e.RetryAfter = retryAfter(max(min(w.lastFull.Wait, maxEstimate+lasted), lasted/2), q.random())
	w.tell(e)
}

// reasonFor returns why w is shed; s is the state of its class.
func (q *Queue) reasonFor(w *Ticket, s *shedState) *ShedError {
	f := &w.lastFull
	e := &ShedError{Pool: q.Pool, Class: w.Class, Usage: f.Usage, Threshold: f.Limit, Reason: ReasonKV}
	switch {
	case f.Paused:
		e.Reason, e.Usage, e.Threshold = ReasonProvider, f.Wait.Seconds(), w.Config.MaxWait[w.Class].Seconds()
	case f.Limit == 0 && s.shed: // it was never tried; others of its class were
		e.Usage, e.Threshold = s.usage, s.limit
	case f.Limit == 0:
		e.Reason, e.Usage, e.Threshold = ReasonQueueFull, float64(q.Len()), maxWaiting
	case f.Usage >= f.Limit:
	case f.Queue > 0 && f.Waiting > f.Queue:
		e.Reason, e.Usage, e.Threshold = ReasonBackendQueue, float64(f.Waiting), float64(f.Queue)
	case f.Late > 0:
		e.Reason, e.Usage, e.Threshold = ReasonBackendDelay, (f.MaxDelay + f.Late).Seconds(), f.MaxDelay.Seconds()
	default:
		e.Reason, e.Usage, e.Threshold = ReasonGrowth, f.Peak, f.PeakLimit
	}
	return e
}

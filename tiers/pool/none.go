package pool

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The errors of a failed pick, for errors.Is. The types below have the details.
var (
	ErrNoBackend = errors.New("no backend")
	ErrFull      = errors.New("pool full")
)

// NoBackendError says why no backend could be picked. Each backend is counted once, by the first reason that applies.
type NoBackendError struct {
	Pool     string
	Total    int
	Down     int   // refused a connection, or answers nothing
	Drained  int   // an operator or a spot notice took it out
	Broken   int   // breaker open; for an Optional demand also suspect
	Excluded int   // tried already
	Full     int   // the prompt is longer than the whole KV cache, or many answers together are
	TooLong  bool  // so it is at every backend: no wait helps
	Prompt   int   // tokens of the longest prompt, estimated or counted
	Answers  int   // that together need more than half of each of them; 0: it is the prompt
	Largest  int   // tokens of the largest of these caches
	Last     error // reason of the one that went down last; nil: none is down
}

// Error carries the numbers.
func (e *NoBackendError) Error() string {
	s := fmt.Sprintf("pool %s: no backend among %d: %d down, %d drained, %d broken, %d tried already, %d with a cache too small",
		e.Pool, e.Total, e.Down, e.Drained, e.Broken, e.Excluded, e.Full)
	if e.Last != nil {
		s += ", last: " + e.Last.Error()
	}
	return s
}

// Is matches ErrNoBackend.
func (e *NoBackendError) Is(target error) bool { return target == ErrNoBackend }

// Unwrap returns why the last backend went down.
func (e *NoBackendError) Unwrap() error { return e.Last }

// FullError says that backends exceed the demand's limits only: the caller may wait for capacity.
type FullError struct {
	Pool          string
	Limit         float64 // the demand's
	Usage         float64 // least KV usage of those backends, own tokens included
	FreeElsewhere bool    // there is capacity, but not where the prefix is cached; only with CanWaitForWarm
	Large         bool    // one answer of the request needs more than half of the memory of each

	Partial bool // backends were excluded, so this is not true of the whole pool

	// Peak is the forecast usage of the least full backend with the request; PeakLimit is its bound.
	Peak, PeakLimit float64

	Waiting int // fewest waiting requests at one of them
	Queue   int // the demand's limit of waiting requests; 0: none

	MaxDelay, Late time.Duration // the demand's limit, and by how much a prompt would wait longer at each of them

	// Wait is the expected time until enough memory is free, by the rate of the last seconds, and until Late is over; 0: unknown.
	// If Paused, it is the time until a hosted backend takes requests again, by its limits of rates.
	Wait   time.Duration
	Paused bool
}

// Error carries the numbers.
func (e *FullError) Error() string {
	return fmt.Sprintf("pool %s: no backend has room: KV usage %.3g at least, limit %.3g, %d requests waiting at least",
		e.Pool, e.Usage, e.Limit, e.Waiting)
}

// Is matches ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// noBackendError returns why no candidate can be used. The caller holds mu.
func (p *Pool) noBackendError(r *round, d *Demand) error {
	if d.Admission.MaxUsage > 0 {
		e := &FullError{Pool: p.o.Name, Limit: d.Admission.MaxUsage, Queue: d.Admission.MaxQueue, MaxDelay: d.Admission.MaxDelay, Partial: len(d.Exclude) > 0}
		if e.of(r.cands, &r.need, p.freed.PerSecond(r.now)) {
			return e
		}
	}
	e := &NoBackendError{Pool: p.o.Name, Total: len(r.set)}
	e.Prompt, e.TooLong = r.need.longest, len(r.cands) > 0
	if r.need.many {
		e.Answers = d.answers()
	}
	var last time.Time
	for i, b := range r.set {
		c := &r.cands[i]
		small := c.tooSmall(&r.need)
		if e.TooLong = e.TooLong && small; small {
			e.Largest = max(e.Largest, c.capacity)
		}
		switch {
		case b.down != nil:
			e.Down++
			if e.Last == nil || b.downAt.After(last) {
				e.Last, last = b.down, b.downAt
			}
		case c.down:
			e.Drained++
		case c.broken:
			e.Broken++
		case c.excluded:
			e.Excluded++
		case small:
			e.Full++
		}
	}
	return e
}

// of sets the numbers from the candidates that only exceed the limits, and reports whether there is one. freed is the
// rate of freed tokens per second; 0: unknown.
func (e *FullError) of(cands []candidate, n *need, freed float64) bool {
	e.Usage, e.Large = 1, true
	minOver, some, paused := 0.0, 0, time.Duration(math.MaxInt64)
	for i := range cands {
		c := &cands[i]
		if !c.mayTake(n) || c.suspect {
			continue
		}
		some++
		e.FreeElsewhere = e.FreeElsewhere || n.CanWaitForWarm && !c.above(n)
		if over := c.excess(n); some == 1 || over < minOver {
			minOver = over
			e.Peak, e.PeakLimit = c.peak(n)
		}
		if waits := int(c.waiting); some == 1 || waits < e.Waiting {
			e.Waiting = waits
		}
		if late := c.late(n); some == 1 || late < e.Late {
			e.Late = late
		}
		e.Large = e.Large && c.capacity > 0 && 2*n.holdOne > c.capacity
		e.Usage = min(e.Usage, c.filled())
		paused = min(paused, c.paused)
	}
	if e.Paused = some > 0 && paused > 0; e.Paused {
		e.Wait = paused
		return true
	}
	if rate := freed / float64(max(some, 1)); rate > 0 {
		e.Wait = time.Duration(minOver / rate * float64(time.Second))
	}
	e.Wait = max(e.Wait, e.Late)
	return some > 0
}

package virtual

import (
	"time"

	"github.com/foregate/foregate/breaker"
)

// window implements gobreaker's rule with our settings, with times as arguments. While closed, it counts the
// outcomes of a rolling window of [breaker.Buckets] parts, and opens if [breaker.Config.Trips] says so. After
// [breaker.Config.Timeout] it allows one call, whose outcome closes or reopens it.
type window struct {
	cfg     breaker.Config
	state   breaker.State
	moves   int       // number of transitions
	since   time.Time // start of its state
	age     int       // of the window in buckets, at the last update
	total   tally
	buckets [breaker.Buckets]tally
}

// tally counts outcomes.
type tally struct {
	calls, successes, faults, excluded int
	inRow                              int // faults since the last success
}

func newWindow(cfg breaker.Config, now time.Time) breaker.Local {
	return &window{cfg: cfg, since: now}
}

// State implements [breaker.Local].
func (w *window) State() breaker.State { return w.state }

// Allow implements [breaker.Local]. Outcomes of calls before the last transition are ignored. Outcomes older than
// the window are not counted, but a fault among them still checks the counts.
func (w *window) Allow(now time.Time) func(breaker.Outcome, time.Time) {
	w.pass(now)
	if w.state == breaker.Open || w.state == breaker.HalfOpen && w.total.calls > w.total.excluded {
		return nil
	}
	w.total.calls++
	w.buckets[w.age%breaker.Buckets].calls++
	moves, age := w.moves, w.age
	return func(o breaker.Outcome, now time.Time) {
		w.pass(now)
		if w.moves != moves {
			return
		}
		if w.age-age < breaker.Buckets {
			w.total.add(o)
			w.buckets[age%breaker.Buckets].add(o)
		}
		half := w.state == breaker.HalfOpen
		switch {
		case o.Failed() && (half || w.cfg.Trips(w.total.successes, w.total.faults, w.total.inRow)):
			w.move(breaker.Open, now)
		case o == breaker.Success && half:
			w.move(breaker.Closed, now)
		}
	}
}

// add counts an outcome.
func (t *tally) add(o breaker.Outcome) {
	switch {
	case o == breaker.Success:
		t.successes++
		t.inRow = 0
	case o.Failed():
		t.faults++
		t.inRow++
	default:
		t.excluded++
	}
}

// move changes to another state, with empty counts.
func (w *window) move(to breaker.State, now time.Time) {
	*w = window{cfg: w.cfg, state: to, moves: w.moves + 1, since: now}
}

// pass updates to now: old buckets leave the window, and an open breaker becomes half-open.
func (w *window) pass(now time.Time) {
	switch w.state {
	case breaker.Open:
		if now.After(w.since.Add(w.cfg.Timeout())) {
			w.move(breaker.HalfOpen, now)
		}
	case breaker.Closed:
		age := int(now.Sub(w.since) / breaker.Bucket)
		if age-w.age >= breaker.Buckets {
			w.total, w.buckets, w.age = tally{}, [breaker.Buckets]tally{}, age
		}
		for w.age < age {
			w.age++
			w.drop(&w.buckets[w.age%breaker.Buckets])
		}
	}
}

// drop removes the oldest bucket from the window. It reduces the faults in a row if they include that bucket:
// if all remaining faults are among them.
func (w *window) drop(oldest *tally) {
	t := &w.total
	t.calls, t.excluded = t.calls-oldest.calls, t.excluded-oldest.excluded
	t.successes, t.faults = t.successes-oldest.successes, t.faults-oldest.faults
	if t.inRow == oldest.inRow+t.faults {
		t.inRow -= oldest.inRow
	}
	*oldest = tally{}
}

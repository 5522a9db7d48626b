package virtual

import (
	"time"

	"github.com/foregate/foregate/breaker"
)

// window implements gobreaker's rule with our settings, with times as arguments: it counts the outcomes of a rolling
// window of [breaker.Buckets] parts, and opens if [breaker.Config.Trips] says so.
type window struct {
	cfg     breaker.Config
	since   time.Time
	age     int // of the window in buckets, at the last update
	total   tally
	buckets [breaker.Buckets]tally
}

// tally counts outcomes.
type tally struct {
	successes, faults int
	inRow             int // faults since the last success
}

func newWindow(cfg breaker.Config, now time.Time) breaker.Local { return &window{cfg: cfg, since: now} }

// Count implements [breaker.Local].
func (w *window) Count(failed bool, now time.Time) (trips bool) {
	w.pass(now)
	for _, t := range [...]*tally{&w.total, &w.buckets[w.age%breaker.Buckets]} {
		if failed {
			t.faults, t.inRow = t.faults+1, t.inRow+1
		} else {
			t.successes, t.inRow = t.successes+1, 0
		}
	}
	return failed && w.cfg.Trips(w.total.successes, w.total.faults, w.total.inRow)
}

// Counts implements [breaker.Local].
func (w *window) Counts(now time.Time) (successes, faults int) {
	w.pass(now)
	return w.total.successes, w.total.faults
}

// pass updates to now: old buckets leave the window.
func (w *window) pass(now time.Time) {
	age := int(now.Sub(w.since) / breaker.Bucket)
	if age-w.age >= breaker.Buckets {
		w.total, w.buckets, w.age = tally{}, [breaker.Buckets]tally{}, age
	}
	for w.age < age {
		w.age++
		w.drop(&w.buckets[w.age%breaker.Buckets])
	}
}

// drop removes the oldest bucket from the window. It reduces the faults in a row if they include that bucket:
// if all remaining faults are among them.
func (w *window) drop(oldest *tally) {
	t := &w.total
	t.successes, t.faults = t.successes-oldest.successes, t.faults-oldest.faults
	if t.inRow == oldest.inRow+t.faults {
		t.inRow -= oldest.inRow
	}
	*oldest = tally{}
}

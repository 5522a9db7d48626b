package machine

import "time"

// Window is gobreaker's rule, with our settings, on a clock that is passed in. It counts the
// outcomes of a rolling window of [Buckets] parts while it is closed, opens where [Config.Trips]
// says so, lets one call in after [Config.Timeout], and closes or opens again by its outcome.
type Window struct {
	cfg     Config
	version Version
	since   time.Time // when it came to its state
	age     int       // of the window, in buckets, when it was last looked at
	total   tally
	buckets [Buckets]tally
}

// tally counts outcomes.
type tally struct {
	calls, successes, faults, excluded int
	inRow                              int // faults since the last success
}

// NewWindow returns a closed one, at a version.
func NewWindow(cfg Config, v Version, now time.Time) *Window {
	return &Window{cfg: cfg, version: v, since: now}
}

// Version implements [Local].
func (w *Window) Version() Version { return w.version }

// ticket is a call that was allowed.
type ticket struct {
	window  *Window
	version Version
	age     int
}

// Allow implements [Local].
func (w *Window) Allow(now time.Time) Report {
	w.pass(now)
	state := w.version.State()
	if state == Open || state == HalfOpen && w.total.calls > w.total.excluded {
		return nil
	}
	w.total.calls++
	w.buckets[w.age%Buckets].calls++
	return &ticket{w, w.version, w.age}
}

// Report implements [Report]. Outcomes of before the last transition say nothing, and those that
// are older than the window do not count; but a fault among these has the counts judged.
func (t *ticket) Report(o Outcome, now time.Time) {
	w := t.window
	w.pass(now)
	if t.version != w.version {
		return
	}
	if w.age-t.age < Buckets {
		w.total.add(o)
		w.buckets[t.age%Buckets].add(o)
	}
	half := w.version.State() == HalfOpen
	switch {
	case o.Failed() && (half || w.cfg.Trips(w.total.successes, w.total.faults, w.total.inRow)):
		w.move(Open, now)
	case o == Success && half:
		w.move(Closed, now)
	}
}

// add counts an outcome.
func (t *tally) add(o Outcome) {
	switch {
	case o == Success:
		t.successes++
		t.inRow = 0
	case o.Failed():
		t.faults++
		t.inRow++
	default:
		t.excluded++
	}
}

// move comes to another state, with empty counts.
func (w *Window) move(to State, now time.Time) {
	*w = Window{cfg: w.cfg, version: w.version.Next(to), since: now}
}

// pass lets time pass: buckets leave the window, and an open breaker becomes half-open.
func (w *Window) pass(now time.Time) {
	switch w.version.State() {
	case Open:
		if now.After(w.since.Add(w.cfg.Timeout())) {
			w.move(HalfOpen, now)
		}
	case Closed:
		age := int(now.Sub(w.since) / w.cfg.Bucket())
		if age-w.age >= Buckets {
			w.total, w.buckets, w.age = tally{}, [Buckets]tally{}, age
		}
		for w.age < age {
			w.age++
			w.drop(&w.buckets[w.age%Buckets])
		}
	}
}

// drop takes the oldest bucket out of the window. The faults in a row lose those of the bucket
// if they reach back into it: if all faults that are left are among them.
func (w *Window) drop(oldest *tally) {
	t := &w.total
	t.calls, t.excluded = t.calls-oldest.calls, t.excluded-oldest.excluded
	t.successes, t.faults = t.successes-oldest.successes, t.faults-oldest.faults
	if t.inRow == oldest.inRow+t.faults {
		t.inRow -= oldest.inRow
	}
	*oldest = tally{}
}

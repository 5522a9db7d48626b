package machine

import "time"

// Window implements gobreaker's rule with our settings, with times as arguments. While closed, it counts the
// outcomes of a rolling window of [Buckets] parts, and opens if [Config.Trips] says so. After
// [Config.Timeout] it allows one call, whose outcome closes or reopens it.
type Window struct {
	cfg     Config
	version Version
	since   time.Time // start of its state
	age     int       // of the window in buckets, at the last update
	total   tally
	buckets [Buckets]tally
}

// tally counts outcomes.
type tally struct {
	calls, successes, faults, excluded int
	inRow                              int // faults since the last success
}

// NewWindow returns a closed one with this version.
func NewWindow(cfg Config, v Version, now time.Time) *Window {
	return &Window{cfg: cfg, version: v, since: now}
}

// Version implements [Local].
func (w *Window) Version() Version { return w.version }

// ticket is an allowed call.
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

// Report implements [Report]. Outcomes of calls before the last transition are ignored. Outcomes older than
// the window are not counted, but a fault among them still checks the counts.
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

// move changes to another state, with empty counts.
func (w *Window) move(to State, now time.Time) {
	*w = Window{cfg: w.cfg, version: w.version.Next(to), since: now}
}

// pass updates to now: old buckets leave the window, and an open breaker becomes half-open.
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

// drop removes the oldest bucket from the window. It reduces the faults in a row if they include that bucket:
// if all remaining faults are among them.
func (w *Window) drop(oldest *tally) {
	t := &w.total
	t.calls, t.excluded = t.calls-oldest.calls, t.excluded-oldest.excluded
	t.successes, t.faults = t.successes-oldest.successes, t.faults-oldest.faults
	if t.inRow == oldest.inRow+t.faults {
		t.inRow -= oldest.inRow
	}
	*oldest = tally{}
}

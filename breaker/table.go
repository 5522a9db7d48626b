package breaker

import "time"

// State is the state of a breaker.
type State int

// The states, with the numbers of gobreaker, of the script sync and of the metric.
const (
	Closed State = iota
	HalfOpen
	Open
)

// String is the state's name in metrics and logs.
func (s State) String() string { return [...]string{"closed", "half-open", "open"}[s] }

const (
	// staleAfter is the maximum age of the fleet's state. A replica that receives nothing for longer decides
	// alone. It is two to five ticks, of which one or two may be lost.
	staleAfter = 1500 * time.Millisecond
	// maxTrial bounds the one request that tries a half-open breaker. gobreaker waits for ever: without this
	// bound, a request that never reports would keep the backend out until the process ends. It is well above
	// the longest wait for a first byte (30 s on a target).
	maxTrial = time.Minute
)

// ownState is this replica's own breaker.
type ownState struct {
	State         State
	Until         time.Time // when an open one may be tested
	TrialDeadline time.Time // when the trial in progress expires; zero is none
	Cut           bool      // the last fault: it could not be reached
}

// view is the fleet's state of a backend, as last received. Its times are this process' own, measured from
// the arrival of the reply: clocks are not compared.
type view struct {
	State State
	Until time.Time // end of its open time or of the testing replica's lease
	Cut   bool      // it could not be reached
	At    time.Time // time of arrival; zero is never
}

// Fresh reports whether the view is still valid.
func (v *view) Fresh(now time.Time) bool { return !v.At.IsZero() && now.Sub(v.At) < staleAfter }

// Refuses is the time until which this view refuses requests: until it is replaced, or without a newer one
// until its open time is over. Zero: it does not refuse.
func (v *view) Refuses() time.Time {
	if v.State == Closed || v.At.IsZero() {
		return time.Time{}
	}
	until := v.At.Add(staleAfter)
	if v.State == Open && v.Until.After(until) {
		until = v.Until
	}
	return until
}

// facts are all inputs of a decision about a backend.
type facts struct {
	Own      ownState
	Fleet    view
	Looked   time.Time // when this replica's prober last checked; zero is never
	MayEject bool      // max ejection allows to keep it out because of its answers

	Restarted bool // another process answers there: it is tested now, whatever is left of the open time

	// State at the last verdict, to detect changes.
	WasOwn, WasShown State
}

// ownRow is the row of the table: this replica's own breaker.
type ownRow int

const (
	ownClosed ownRow = iota
	ownOpen          // and its open time is not over
	ownDue           // open and its open time is over, or half-open; no trial runs
	ownTried         // a request tries it
)

func (o *ownState) row(now time.Time) ownRow {
	switch {
	case o.State == Closed:
		return ownClosed
	case o.State == Open && now.Before(o.Until):
		return ownOpen
	case now.Before(o.TrialDeadline):
		return ownTried
	}
	return ownDue
}

// fleetColumn is the column of the table: the fleet's state, and who tests.
type fleetColumn int

const (
	colSilent fleetColumn = iota // no valid view, and no prober here: requests test
	colProbed                    // no valid view, and a prober here
	colClosed                    // closed
	colOpen                      // open, and its open time is not over
	colDue                       // its open time is over, and no replica tests it
	colLeased                    // half-open: the holder of a lease tests it
	colLapsed                    // half-open, and the lease has expired
)

func (f *facts) column(now time.Time) fleetColumn {
	v, over := &f.Fleet, !now.Before(f.Fleet.Until) || f.Restarted && f.Fleet.State == Open
	switch ruled := now.Before(v.Refuses()); {
	case ruled && v.State == Open && over:
		return colDue
	case ruled && v.State == Open:
		return colOpen
	case ruled && over:
		return colLapsed
	case ruled:
		return colLeased
	case v.Fresh(now):
		return colClosed
	case now.Before(f.probedUntil()):
		return colProbed
	}
	return colSilent
}

// probedUntil is the time until which probes test the breaker, not requests: while the fleet's view is fresh,
// and while the prober runs.
func (f *facts) probedUntil() time.Time {
	last := f.Looked
	if f.Fleet.At.After(last) {
		last = f.Fleet.At
	}
	if last.IsZero() {
		return last
	}
	return last.Add(staleAfter)
}

// decision says what a request may do.
type decision int

// The decisions.
const (
	decidePass   decision = iota // it may go, and its outcome counts
	decideTrial                  // it may go, and tests the breaker
	decideRefuse                 // it may not go
	decideSpare                  // it may go although the breaker is open, because max ejection is reached; its outcome does not count
)

// probeKind is the kind of test that is due.
type probeKind int

// The probes.
const (
	noProbe  probeKind = iota
	probeOwn           // by this replica alone: its own connection to the backend is in doubt
	probeAll           // for the fleet, by the replica that gets the lease
)

// cell is the result for one combination of an own breaker and a fleet state.
type cell struct {
	decision decision
	display  State // on a status page: an open breaker whose open time is over is shown as half-open
	probing  bool  // the breaker is being tested, or will be immediately
	probe    probeKind
}

var (
	pass     = cell{}
	wait     = cell{decision: decideRefuse, display: Open}
	trial    = cell{decision: decideTrial, display: HalfOpen}
	tried    = cell{decision: decideRefuse, display: HalfOpen, probing: true}
	ownProbe = cell{decision: decideRefuse, display: HalfOpen, probing: true, probe: probeOwn}
	allProbe = cell{decision: decideRefuse, display: HalfOpen, probing: true, probe: probeAll}
)

// table combines the two. A fleet state that refuses requests always wins. If the fleet's state is closed or
// unknown, the own breaker decides. Requests test a breaker only if nobody probes.
var table = [...][7]cell{
	//          silent probed closed open due leased lapsed
	ownClosed: {pass, pass, pass, wait, allProbe, tried, allProbe},
	ownOpen:   {wait, wait, wait, wait, allProbe, tried, allProbe},
	ownDue:    {trial, ownProbe, ownProbe, wait, allProbe, tried, allProbe},
	ownTried:  {tried, tried, tried, wait, allProbe, tried, allProbe},
}

// verdict is the result of evaluating facts.
type verdict struct {
	Decision       decision
	Remaining      time.Duration // until the breaker may be tried; an upper bound while Probing
	Probing        bool
	Until          time.Time // requests are refused until then, without new information and without max ejection
	EjectionCapped bool      // max ejection lets them pass anyway

	Display   State // state on a status page
	Shown     State // state in logs and transition counters
	ByFleet   bool  // decided by the fleet's state
	Alone     bool  // not closed here, but closed for the fleet
	Unreached bool  // it opened because the backend could not be reached
	Probe     probeKind

	Moved  bool // Shown has changed
	Revoke bool // the own breaker has opened: successes that other replicas were told of are revoked
	Forget bool // the breaker has closed: earlier observations are deleted
}

// combine evaluates facts. It is the only place where the own breaker, the fleet's state and the probes are
// combined.
func combine(f *facts, now time.Time) verdict {
	row, col := f.Own.row(now), f.column(now)
	if row == ownOpen && f.Restarted {
		row = ownDue
	}
	c := table[row][col]
	v := verdict{
		Decision: c.decision, Probing: c.probing, Display: c.display, Probe: c.probe,
		Shown: f.Own.State, Unreached: f.Own.Cut, Alone: col == colClosed && row != ownClosed,
	}
	if col >= colOpen {
		v.ByFleet, v.Shown, v.Unreached = true, f.Fleet.State, f.Fleet.Cut
	}
	if c.decision == decideRefuse {
		v.Remaining, v.Until = f.remaining(row, col, now), f.until()
		if v.EjectionCapped = !f.MayEject && !v.Unreached; v.EjectionCapped {
			v.Decision = decideSpare
		}
	}
	v.Moved = v.Shown != f.WasShown
	v.Revoke = f.WasOwn == Closed && f.Own.State == Open
	v.Forget = v.Moved && v.Shown == Closed
	return v
}

// remaining is the remaining time of a refusal.
func (f *facts) remaining(row ownRow, col fleetColumn, now time.Time) time.Duration {
	switch {
	case col >= colOpen:
		return max(f.Fleet.Until.Sub(now), 0)
	case row == ownOpen:
		return f.Own.Until.Sub(now)
	case row == ownTried:
		return f.Own.TrialDeadline.Sub(now)
	}
	return f.probedUntil().Sub(now)
}

// until is the time when the last reason to refuse ends.
func (f *facts) until() time.Time {
	until := f.Fleet.Refuses()
	if f.Own.State != Closed {
		// Probes, or a newer view, come first: no request tests it before.
		for _, t := range [...]time.Time{f.probedUntil(), f.Own.Until, f.Own.TrialDeadline} {
			if t.After(until) {
				until = t
			}
		}
	}
	return until
}

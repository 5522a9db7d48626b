package machine

import "time"

// State is that of a breaker.
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
	// StaleAfter is how old the fleet's word may be; a replica that hears nothing for longer
	// decides alone. It is two to five ticks, of which one or two may be lost.
	StaleAfter = 1500 * time.Millisecond
	// MaxTrial is how long the one request that tries a half-open breaker may
	// take. gobreaker waits for ever; a request that never tells its outcome
	// would keep the backend out until the process ends. It is well above the
	// longest wait for a first byte (30 s on a target).
	MaxTrial = time.Minute
)

// Own is this replica's own breaker.
type Own struct {
	State State
	Until time.Time // when an open one is due for a test
	Trial time.Time // when the trial that is under way is given up; zero is none
	Cut   bool      // the last fault: could not be reached
}

// View is what the fleet says of a backend, as it was last heard. Its times are this
// process' own, counted from the moment the word came: clocks are not compared.
type View struct {
	State State
	Until time.Time // how long it is open, or leased to whoever tests it
	Cut   bool      // it could not be reached
	At    time.Time // when it was heard; zero is never
}

// Fresh reports whether the word is to be followed.
func (v *View) Fresh(now time.Time) bool { return !v.At.IsZero() && now.Sub(v.At) < StaleAfter }

// Refuses is until when nobody may go there by this word: until a newer one, and where none
// comes, until its open time has run out. Zero is: they may.
func (v *View) Refuses() time.Time {
	if v.State == Closed || v.At.IsZero() {
		return time.Time{}
	}
	until := v.At.Add(StaleAfter)
	if v.State == Open && v.Until.After(until) {
		until = v.Until
	}
	return until
}

// Facts are all that decides on a backend at one moment.
type Facts struct {
	Own      Own
	Fleet    View
	Looked   time.Time // when this replica's prober last looked; zero is never
	MayEject bool      // max ejection lets it be kept out for what it answered

	// What the last verdict was made of, to tell what has changed.
	WasOwn, WasShown State
}

// ownRow is the table's row: this replica's own breaker.
type ownRow int

const (
	ownClosed ownRow = iota
	ownOpen          // and its time is not over
	ownDue           // open and its time is over, or half-open; nobody tries it
	ownTried         // a request tries it
)

func (o *Own) row(now time.Time) ownRow {
	switch {
	case o.State == Closed:
		return ownClosed
	case o.State == Open && now.Before(o.Until):
		return ownOpen
	case now.Before(o.Trial):
		return ownTried
	}
	return ownDue
}

// fleetColumn is the table's column: what the fleet says, and who tests.
type fleetColumn int

const (
	silent    fleetColumn = iota // nothing that holds, and no prober here: requests test
	probed                       // nothing that holds, and a prober here
	wellKnown                    // closed
	fleetOpen                    // open, and its time is not over
	fleetDue                     // its time is over, and nobody tests it
	leased                       // half-open: the holder of a lease tests it
	lapsed                       // half-open, and the lease is over
)

func (f *Facts) column(now time.Time) fleetColumn {
	v, over := &f.Fleet, !now.Before(f.Fleet.Until)
	switch ruled := now.Before(v.Refuses()); {
	case ruled && v.State == Open && over:
		return fleetDue
	case ruled && v.State == Open:
		return fleetOpen
	case ruled && over:
		return lapsed
	case ruled:
		return leased
	case v.Fresh(now):
		return wellKnown
	case now.Before(f.probedUntil()):
		return probed
	}
	return silent
}

// probedUntil is until when probes test the breaker, not requests: while the fleet's word is
// fresh, and while the prober looks.
func (f *Facts) probedUntil() time.Time {
	last := f.Looked
	if f.Fleet.At.After(last) {
		last = f.Fleet.At
	}
	if last.IsZero() {
		return last
	}
	return last.Add(StaleAfter)
}

// Decision is what is permitted to a request.
type Decision int

// The decisions.
const (
	Pass   Decision = iota // it may go, and its outcome counts
	Trial                  // it may go, as the one that tests the breaker
	Refuse                 // it may not
	Spare                  // it may go although the breaker is open, because max ejection is reached; it does not count here
)

// Probe is which test is due.
type Probe int

// The probes.
const (
	NoProbe  Probe = iota
	OwnProbe       // of this replica alone: it is its own way to the backend that is in doubt
	AllProbe       // for the fleet, by whoever gets the lease
)

// cell is what one combination of an own breaker and a word of the fleet comes to.
type cell struct {
	decision Decision
	display  State // as a status page shows it: an open breaker whose time is over is half-open
	probing  bool  // a refusal says that somebody tests the breaker, or is about to
	probe    Probe
}

var (
	pass  = cell{}
	wait  = cell{decision: Refuse, display: Open}
	trial = cell{decision: Trial, display: HalfOpen}
	tried = cell{decision: Refuse, display: HalfOpen, probing: true}
	own   = cell{decision: Refuse, display: HalfOpen, probing: true, probe: OwnProbe}
	all   = cell{decision: Refuse, display: HalfOpen, probing: true, probe: AllProbe}
)

// table is how they combine. A word of the fleet that keeps requests out rules, whatever this
// replica saw. Where the fleet says closed, or nothing, the own breaker does. Requests test a
// breaker only where nobody probes.
var table = [...][7]cell{
	//          silent probed wellKnown fleetOpen fleetDue leased lapsed
	ownClosed: {pass, pass, pass, wait, all, tried, all},
	ownOpen:   {wait, wait, wait, wait, all, tried, all},
	ownDue:    {trial, own, own, wait, all, tried, all},
	ownTried:  {tried, tried, tried, wait, all, tried, all},
}

// Verdict is what facts come to.
type Verdict struct {
	Decision Decision
	Left     time.Duration // until the breaker may be tried; an upper bound while Probing
	Probing  bool
	Until    time.Time // requests are refused until then, if nothing new is heard, max ejection aside
	Spared   bool      // max ejection lets them pass all the same

	Display   State // as a status page shows it
	Shown     State // as transitions are logged and counted
	ByFleet   bool  // it is the fleet's word
	Alone     bool  // not closed here, and closed for the fleet
	Unreached bool  // what opened it is that the backend could not be reached
	Probe     Probe

	Moved bool // Shown is another than it was
	Tell  Tell
}

// Tell is what a change means for what others are told.
type Tell struct {
	Revoke bool // the own breaker has opened: the successes that were told are taken back
	Forget bool // what was seen is of no more use: the breaker has closed
}

// Combine says what facts come to. It is the only place where the own breaker, the fleet's word
// and the probes meet.
func Combine(f *Facts, now time.Time) Verdict {
	row, col := f.Own.row(now), f.column(now)
	c := table[row][col]
	v := Verdict{
		Decision: c.decision, Probing: c.probing, Display: c.display, Probe: c.probe,
		Shown: f.Own.State, Unreached: f.Own.Cut, Alone: col == wellKnown && row != ownClosed,
	}
	if col >= fleetOpen {
		v.ByFleet, v.Shown, v.Unreached = true, f.Fleet.State, f.Fleet.Cut
	}
	if c.decision == Refuse {
		v.Left, v.Until = f.left(row, col, now), f.until()
		if v.Spared = !f.MayEject && !v.Unreached; v.Spared {
			v.Decision = Spare
		}
	}
	v.Moved = v.Shown != f.WasShown
	v.Tell = Tell{
		Revoke: f.WasOwn == Closed && f.Own.State == Open,
		Forget: v.Moved && v.Shown == Closed,
	}
	return v
}

// left is how long a refusal still holds.
func (f *Facts) left(row ownRow, col fleetColumn, now time.Time) time.Duration {
	switch {
	case col >= fleetOpen:
		return max(f.Fleet.Until.Sub(now), 0)
	case row == ownOpen:
		return f.Own.Until.Sub(now)
	case row == ownTried:
		return f.Own.Trial.Sub(now)
	}
	return f.probedUntil().Sub(now)
}

// until is when the last of what refuses ends.
func (f *Facts) until() time.Time {
	until := f.Fleet.Refuses()
	if f.Own.State != Closed {
		// Probes, or a newer word, come first: no request tests it before.
		for _, t := range [...]time.Time{f.probedUntil(), f.Own.Until, f.Own.Trial} {
			if t.After(until) {
				until = t
			}
		}
	}
	return until
}

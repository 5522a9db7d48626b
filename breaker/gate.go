package breaker

import (
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/internal/blame"
)

// State is the state of a breaker.
type State int

// The states, with the numbers of the metric.
const (
	Closed State = iota
	HalfOpen
	Open
)

// String is the state's name in metrics and logs.
func (s State) String() string { return [...]string{"closed", "half-open", "open"}[s] }

const (
	// staleAfter is how long a text says that replicas hear each other: two to five exchanges, of which one or two may be
	// lost. Counts last twice as long.
	staleAfter = 1500 * time.Millisecond
	window     = Bucket * Buckets // the age of the oldest text that is taken, and how long a closing is told
	// slack is the most by which two replicas' times of one change differ: a round trip. Two changes are at least twice as far apart.
	slack = 250 * time.Millisecond

	fleetOpen    = 2 * time.Second    // the first open time for the fleet; it doubles with each later one
	maxFleetOpen = 30 * time.Second   // before it is randomized
	patience     = 5 * time.Second    // until a breaker that is due is tested by replicas that do not own the backend
	untilNews    = 10_000 * time.Hour // no end: only the result of a probe closes the breaker
)

// gate stands before a backend's own judge (gobreaker): while it is open no request passes. It opens by this replica's own
// calls, or for the fleet. All times are this process' own: texts say how long ago something was.
type gate struct {
	open   bool
	fleet  bool      // it is open for all replicas
	since  time.Time // when it opened
	until  time.Time // when an open one may be tested
	cut    bool      // the backend could not be reached
	faults int       // own ones, which opened it

	changed time.Time         // the fleet's last opening or closing, of which the later counts; zero: nothing is known
	turn    int               // openings for the fleet in a row
	heard   time.Time         // when the last text that names the backend was told
	told    map[string]report // the last of each replica, for ten seconds
	news    bool              // there are new faults among them

	probed    bool // probes test the breaker: Run runs
	mayEject  bool // max ejection allows to keep it out because of its answers
	restarted bool // another process answers there: it is tested now, whatever is left of the open time
}

// verdict is the result of a decision.
type verdict struct {
	state     State         // an open one whose open time is over is half-open
	refused   bool          // a request may not go
	ejected   bool          // it is kept out because of its answers, if its pool allows it
	until     time.Time     // when it ends without news that a request is refused, or would be without max ejection
	closed    time.Time     // when it closed last
	remaining time.Duration // until the breaker may be tested
	due       bool          // a probe must test it
	turn      int           // the probe of the owner of this opening; 0: of each replica
	fleet     bool          // it is open for all replicas
	alone     bool          // not closed here, but closed for the fleet
}

// decide is what follows for requests and probes.
func (g *gate) decide(now time.Time) (v verdict) {
	if !g.open {
		return v
	}
	v = verdict{state: Open, refused: g.mayEject || g.cut, ejected: !g.cut, until: g.until, remaining: max(g.until.Sub(now), 0), fleet: g.fleet}
	v.alone = !g.fleet && now.Sub(g.heard) < staleAfter
	if g.probed {
		v.until = g.since.Add(untilNews)
	}
	if v.due = g.restarted || v.remaining == 0; v.due {
		v.state = HalfOpen
		if g.fleet && !g.restarted && now.Sub(g.until) < patience {
			v.turn = g.turn
		}
	}
	return v
}

// take takes over what a replica has told.
func (g *gate) take(r *report) {
	g.heard = later(g.heard, r.at)
	changed, until, opens := r.at.Add(-ms(r.Ago)), r.at.Add(ms(r.Left)), r.Turn > 0
	since := changed.Sub(g.changed)
	old := r.Turn == 0 || since < -slack
	if !old && since > slack {
		g.changed, g.told = changed, nil
		if !opens && g.since.Before(changed) { // tested well since it opened, here too
			g.open, g.turn = false, 0
		}
	}
	if !old && opens && (since > slack || !g.open || !g.fleet || until.Sub(g.until) > slack) {
		g.open, g.fleet, g.since, g.until, g.cut, g.turn = true, true, changed, until, r.Cut, r.Turn
	}
	if old && (!g.open || !g.fleet) && r.at.Sub(g.changed) < window+slack {
		return // it has not heard of the closing: its counts are older
	}
	if was := g.told[r.replica]; !r.at.Before(was.at) {
		if g.told == nil {
			g.told = map[string]report{}
		}
		g.news = g.news || r.Faults > was.Faults
		g.told[r.replica] = *r
	}
}

// judge sums up what all replicas have told: the faults, whether most of them could not reach the backend, and whether it
// opens for the fleet. Only a fault opens it, not that successes have grown old.
func (g *gate) judge(now time.Time) (faults int, cut, opens bool) {
	successes, unreached := 0, 0
	for replica, r := range g.told {
		switch age := now.Sub(r.at); {
		case age > window:
			delete(g.told, replica)
		case age < 2*staleAfter:
			successes, faults = successes+r.Successes, faults+r.Faults
			if r.Cut {
				unreached += r.Faults
			}
		}
	}
	return faults, 2*unreached > faults, g.news && (!g.open || !g.fleet) && successes+faults >= minFinished && faults >= successes
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// entry is one backend's breaker on this replica, guarded by the set's lock but for the atomic fields.
type entry struct {
	Key
	gate
	o       *Options
	cfg     Config
	local   Local
	period  int         // number of closings
	blame   blame.Blame // which faults count
	left    time.Time   // when it left closed
	view    atomic.Pointer[verdict]
	probing atomic.Bool // this replica probes it
}

// ended ends a call. One from before the last closing says nothing, nor does one while the breaker is open.
func (e *entry) ended(p *Permit, o Outcome, now time.Time) {
	if o == Success {
		e.blame.AnsweredWell(p.tenant, now)
	} else if o == Fault && !e.blame.Counts(p.tenant, now) {
		o = Neutral
	}
	if p.period != e.period || e.open || o != Success && !o.Failed() {
		return
	}
	e.cut = o == Unreachable || e.cut && o == Success
	if _, faults := e.local.Counts(now); e.local.Count(o.Failed(), now) {
		e.faults = faults + 1
		e.move(true, false, e.cut, now)
	}
}

// move opens the gate for this replica, or for the fleet each time for longer, or closes it.
func (e *entry) move(open, fleet, cut bool, now time.Time) {
	lasts, turn := e.cfg.Open, 0
	if open && fleet {
		lasts, turn = min(fleetOpen<<min(e.turn, 4), maxFleetOpen), e.turn+1
	}
	if fleet {
		e.changed, e.told = later(now, e.changed.Add(2*slack)), nil
	}
	e.open, e.fleet, e.cut, e.turn, e.since = open, open && fleet, cut, turn, now
	e.until = now.Add(time.Duration(float64(lasts) * (0.8 + 0.4*e.o.Draw())))
}

// settle decides anew after a change, and stores what a pick reads.
func (e *entry) settle(now time.Time) verdict {
	v, was := e.decide(now), e.view.Load()
	v.closed = was.closed
	switch {
	case was.state == Closed && e.open:
		e.left = now
	case was.state != Closed && !e.open:
		e.period++
		e.local, e.restarted, v.closed = e.o.Local(e.cfg, now), false, now
	}
	if v != *was {
		stored := v
		e.view.Store(&stored)
	}
	return v
}

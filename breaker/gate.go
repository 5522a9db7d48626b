package breaker

import "time"

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
	// window is the age of the oldest text that is taken, and how long a closing is told.
	window = Bucket * Buckets
	// slack is the most by which two replicas' times of one change differ: a round trip. Changes are kept two of it apart.
	slack = 250 * time.Millisecond

	fleetOpen    = 2 * time.Second  // the first open time for the fleet; it doubles with each later one
	maxFleetOpen = 30 * time.Second // before it is randomized
	// patience is how long after its time a breaker is tested by replicas that do not own the backend.
	patience = 5 * time.Second
	// maxTrial bounds the one request that tests a breaker where nobody probes: one that never reports would keep the
	// backend out until the process ends. It is well above the longest wait for a first byte (30 s on a target).
	maxTrial = time.Minute
	// untilNews is the time until probes have tested a breaker: it does not come.
	untilNews = 10_000 * time.Hour
)

// gate stands before a backend's own judge (gobreaker): while it is open no request passes. It opens by this replica's own
// calls, or for the fleet. All times are this process' own: texts say how long ago something was.
type gate struct {
	open   bool
	fleet  bool      // it is open for all replicas
	since  time.Time // when it opened
	until  time.Time // when an open one may be tested
	trial  time.Time // until when a request tests it; zero is none
	cut    bool      // the backend could not be reached
	faults int       // own ones, which opened it

	changed time.Time         // the fleet's last opening or closing, of which the later counts; zero: nothing is known
	turn    int               // openings for the fleet in a row
	heard   time.Time         // when the last text that names the backend was told
	told    map[string]report // the last of each replica, for ten seconds
	news    bool              // there are new faults among them

	probed    bool // probes test the breaker, not requests: Run runs
	mayEject  bool // max ejection allows to keep it out because of its answers
	restarted bool // another process answers there: it is tested now, whatever is left of the open time
}

// verdict is the result of a decision.
type verdict struct {
	state     State         // an open one whose open time is over is half-open
	refused   bool          // a request may not go
	spared    bool          // it may go although the breaker is open, because max ejection is reached; it does not count
	tried     bool          // it may go, and tests the breaker
	until     time.Time     // when it ends that a request is refused or spared, without news
	remaining time.Duration // until the breaker may be tested
	due       bool          // a probe must test it
	turn      int           // the probe of the owner of this opening; 0: of each replica
	fleet     bool          // it is open for all replicas
	alone     bool          // not closed here, but closed for the fleet
}

// decide is what follows for requests and probes. Requests test a breaker only if nobody probes.
func (g *gate) decide(now time.Time) (v verdict) {
	if !g.open {
		return v
	}
	v = verdict{state: Open, fleet: g.fleet, until: later(g.until, g.trial), remaining: max(g.until.Sub(now), 0)}
	v.alone = !g.fleet && now.Sub(g.heard) < staleAfter
	if g.probed {
		v.until = now.Add(untilNews)
	}
	over := g.restarted || v.remaining == 0
	switch {
	case !over:
	case now.Before(g.trial):
		v.remaining = g.trial.Sub(now)
	case g.probed:
		v.due = true
		if g.fleet && !g.restarted && now.Sub(g.until) < patience {
			v.turn = g.turn
		}
	default:
		v.tried = true
	}
	if over {
		v.state = HalfOpen
	}
	v.refused = !v.tried && (g.mayEject || g.cut)
	v.spared = !v.tried && !v.refused
	return v
}

// opened opens the gate by this replica's own calls.
func (g *gate) opened(faults int, cut bool, lasts time.Duration, now time.Time) {
	g.open, g.fleet, g.since, g.until, g.trial, g.faults, g.cut = true, false, now, now.Add(lasts), time.Time{}, faults, cut
}

// move opens the gate for the fleet, for longer each time, or closes it.
func (g *gate) move(open, cut bool, now time.Time, draw float64) {
	next := *g
	next.open, next.fleet, next.since, next.trial, next.cut, next.turn, next.told = open, open, now, time.Time{}, cut, 0, nil
	if open {
		next.turn = g.turn + 1
		next.until = now.Add(randomized(min(fleetOpen<<min(g.turn, 4), maxFleetOpen), draw))
	}
	if open || g.fleet {
		next.changed = later(now, g.changed.Add(2*slack))
	}
	*g = next
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
		g.open, g.fleet, g.since, g.until, g.trial, g.cut, g.turn = true, true, changed, until, time.Time{}, r.Cut, r.Turn
	}
	if old && !(g.open && g.fleet) && r.at.Sub(g.changed) < window+slack {
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

// sum is what all replicas have told: successes, faults, and the faults of replicas that could not reach it.
func (g *gate) sum(now time.Time) (successes, faults, cut int) {
	for replica, r := range g.told {
		switch age := now.Sub(r.at); {
		case age > window:
			delete(g.told, replica)
		case age < 2*staleAfter:
			successes, faults = successes+r.Successes, faults+r.Faults
			if r.Cut {
				cut += r.Faults
			}
		}
	}
	return successes, faults, cut
}

// trips reports whether what all have told opens the gate for the fleet. Only a fault does, not that successes have grown
// old.
func (g *gate) trips(now time.Time) bool {
	successes, faults, _ := g.sum(now)
	return g.news && !(g.open && g.fleet) && successes+faults >= minFinished && faults >= successes
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// randomized is an open time ×0.8–1.2.
func randomized(d time.Duration, draw float64) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*draw))
}

package breaker

import (
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/internal/blame"
)

// entry is one backend's breaker on this replica. The set's lock guards it, but for the atomic fields, which a pick reads.
type entry struct {
	Key
	gate
	set    *Set
	cfg    Config
	local  Local
	trier  *Permit     // the request that tests it
	period int         // number of closings
	blame  blame.Blame // which faults count
	shown  State       // in logs and transition counters
	ejects bool        // to be kept out because of its answers, if its pool allows it
	left   time.Time   // when the shown state left closed

	// Nanoseconds since the set's base until which Open and Shut are true, and when it closed; 0 is none.
	shut, broken, closed atomic.Int64
	probing              atomic.Bool // this replica probes it
}

// allow begins a call, if it may go. cfg takes effect if the breaker is closed.
func (e *entry) allow(p *Permit, cfg Config, now time.Time) verdict {
	if !e.open && cfg != e.cfg {
		e.cfg, e.local = cfg, e.set.o.Local(cfg, now)
	}
	v := e.decide(now)
	p.period = e.period
	if v.spared {
		p.period = -1
	}
	if v.tried {
		e.trier, e.trial = p, now.Add(maxTrial)
	}
	return v
}

// ended ends a call. One from before the last closing says nothing.
func (e *entry) ended(p *Permit, o Outcome, now time.Time) {
	counts := o == Success || o.Failed()
	switch _, faults := e.local.Counts(now); {
	case p.period != e.period:
	case e.open && e.trier == p && !counts:
		e.trial = time.Time{} // the next one may test it
	case e.open && e.trier == p:
		e.tested(o, now)
	case !e.open && counts:
		if o.Failed() {
			e.cut = o == Unreachable
		}
		if e.local.Count(o.Failed(), now) {
			e.opens(faults+1, o, now)
		}
	}
}

// opens begins an open time of this replica, after so many faults.
func (e *entry) opens(faults int, o Outcome, now time.Time) {
	e.trier = nil
	e.opened(faults, o == Unreachable, randomized(e.cfg.Open, e.set.o.Draw()), now)
}

// tested applies the result of a test of an open breaker: a fault begins another open time.
func (e *entry) tested(o Outcome, now time.Time) {
	switch {
	case o == Success:
		e.move(false, false, now, 0)
	case e.fleet:
		e.move(true, o == Unreachable, now, e.set.o.Draw())
	default:
		e.opens(1, o, now)
	}
}

// judge opens the breaker for the fleet if what the replicas have told is enough.
func (e *entry) judge(now time.Time) {
	if e.trips(now) {
		_, faults, cut := e.sum(now)
		e.move(true, 2*cut > faults, now, e.set.o.Draw())
	}
	e.news = false
}

// settle decides anew after a change, and sets the times that a pick reads.
func (e *entry) settle(now time.Time) verdict {
	v := e.decide(now)
	switch from := e.shown; {
	case from == Closed && e.open:
		e.left = now
	case from != Closed && !e.open:
		e.period++
		e.local, e.trier, e.restarted = e.set.o.Local(e.cfg, now), nil, false
		e.closed.Store(max(int64(now.Sub(e.set.base)), 1))
	}
	e.shown, e.ejects = v.state, e.open && !e.cut
	broken, shut := int64(0), int64(0)
	if v.refused || v.spared {
		broken = int64(v.until.Sub(e.set.base))
	}
	if v.refused {
		shut = broken
	}
	e.broken.Store(broken)
	e.shut.Store(shut)
	return v
}

package breaker

import (
	"cmp"
	"slices"
	"time"
)

// backend is the state of one backend's breaker on this replica. It has no clock, lock or logger.
type backend struct {
	Key
	facts    facts
	cfg      Config
	newLocal func(Config, time.Time) Local
	draw     func() float64 // a random number in [0, 1)

	local      Local
	localState State         // when last read
	generation uint64        // changes with the local breaker and its state
	lasts      time.Duration // total duration of the own open time
	trial      *call         // the call that tries a half-open breaker
	period     uint64        // number of closings

	ejects bool      // to be kept out because of its answers, if its pool allows it
	since  time.Time // when the shown state left closed
}

// call is one request that the breaker has allowed.
type call struct {
	local      Local
	report     func(Outcome, time.Time) // nil: its outcome does not count for the local breaker, or was used
	generation uint64                   // of the breaker when the call began
	period     uint64                   // the same
	at         time.Time
}

// renew replaces the local breaker by a new closed one, because gobreaker can neither be reset nor
// reconfigured. Reports of earlier calls go to the old one, as they should.
func (b *backend) renew(cfg Config, now time.Time) {
	b.cfg = cfg
	b.local, b.localState = b.newLocal(cfg, now), Closed
	b.generation++
	b.trial = nil
	b.facts.Own = ownState{Cut: b.facts.Own.Cut}
}

// allow begins a call; the error says that it may not go. cfg takes effect if the breaker is closed. The breaker
// must be settled afterwards.
func (b *backend) allow(c *call, cfg Config, now time.Time) error {
	if b.facts.Own.State == Closed && cfg != b.cfg {
		b.renew(cfg, now)
	}
	v := combine(&b.facts, now)
	*c = call{local: b.local, at: now, period: b.period}
	switch v.Decision {
	case decideRefuse:
		return &OpenError{Key: b.Key, Remaining: v.Remaining, Probing: v.Probing}
	case decideSpare:
		return nil
	case decideTrial:
		b.dropTrial(now)
	}
	if c.report = b.local.Allow(now); c.report == nil {
		return &OpenError{Key: b.Key, Probing: true} // another call was faster
	}
	b.follow(now)
	if v.Decision == decideTrial {
		b.trial = c
		b.facts.Own = ownState{State: HalfOpen, TrialDeadline: now.Add(maxTrial), Cut: b.facts.Own.Cut}
	}
	c.generation = b.generation
	return nil
}

// dropTrial ends a trial without a verdict, so that the next one may begin.
func (b *backend) dropTrial(now time.Time) {
	if t := b.trial; t != nil && t.report != nil {
		t.report(Neutral, now) // no evidence either way
		t.report = nil
	}
	b.trial, b.facts.Own.TrialDeadline = nil, time.Time{}
}

// ended ends a call; the breaker must be settled afterwards. evidence reports whether the outcome is for other
// replicas, too: the breaker has not closed since the call began.
func (b *backend) ended(c *call, o Outcome, now time.Time) (evidence bool) {
	report := c.report
	c.report = nil
	if report != nil && c.generation == b.generation {
		if o.Failed() {
			b.facts.Own.Cut = o == Unreachable
		}
		if b.facts.Own.State == Closed && now.Sub(c.at) > Bucket*(Buckets-1) {
			// A local breaker silently drops an outcome that is older than its window; a backend that hangs until
			// a 30 s timeout would never be detected. So it is counted as a new call.
			report = c.local.Allow(now)
		}
	}
	if report != nil {
		report(o, now)
	}
	if b.trial == c {
		b.dropTrial(now)
	}
	return c.period == b.period
}

// follow updates the state to the local breaker's.
func (b *backend) follow(now time.Time) {
	state := b.local.State()
	if state == b.localState {
		return
	}
	b.localState = state
	b.generation++
	switch state {
	case HalfOpen: // by a late outcome: the open time that counts is not over
	case Closed:
		b.facts.Own = ownState{Cut: b.facts.Own.Cut}
		b.trial = nil
	case Open:
		b.opened(now)
	}
}

// opened begins an open time of this replica.
func (b *backend) opened(now time.Time) {
	b.lasts = time.Duration(float64(b.cfg.Open) * (0.8 + 0.4*b.draw()))
	b.trial = nil
	b.facts.Own = ownState{State: Open, Until: now.Add(b.lasts), Cut: b.facts.Own.Cut}
}

// applyFleetView applies the fleet's state. If the fleet has closed an open breaker, this replica's earlier
// observations are deleted.
func (b *backend) applyFleetView(v view, cfg Config, now time.Time) {
	was := b.facts.Fleet.State
	b.facts.Fleet = v
	if was != Closed && v.State == Closed && b.facts.Own.State != Closed {
		b.renew(cfg, now)
	}
}

// successesClose is how many probes in a row must succeed.
const successesClose = 2

// probed applies the result of an own probe: the last required success closes this replica's breaker, a fault
// begins another open time. well is the number of earlier successes in a row. again asks for another probe.
func (b *backend) probed(o Outcome, well int, cfg Config, now time.Time) (again bool) {
	switch alive := o == Success || o == Backpressure; {
	case b.facts.Own.State == Closed:
	case o.Failed():
		b.dropTrial(now)
		b.follow(now)
		b.facts.Own.Cut = o == Unreachable
		b.opened(now)
	case alive && well+1 < successesClose:
		again = true
	case alive:
		b.renew(cfg, now)
	}
	return again
}

// move is a transition, to be logged if from differs from to.
type move struct {
	from, to State
	lasts    time.Duration // for a move to open
	byFleet  bool
	eject    bool // the pool's ejections must be decided again
}

// settle evaluates the breaker's facts, and returns the transition since the last call. Call it after every
// change.
func (b *backend) settle(now time.Time) (verdict, move) {
	b.follow(now)
	v := combine(&b.facts, now)
	m := move{from: b.facts.WasShown, to: v.Shown, byFleet: v.ByFleet}
	b.facts.WasOwn, b.facts.WasShown = b.facts.Own.State, v.Shown
	b.facts.Restarted = b.facts.Restarted && v.Shown != Closed
	ejected := b.ejects
	b.ejects = v.Shown != Closed && !v.Unreached
	if m.eject = v.Moved || b.ejects != ejected; !v.Moved {
		return v, m
	}
	if m.from == Closed {
		b.since = now
	}
	switch v.Shown {
	case Closed:
		b.period++
		b.since = time.Time{}
	case Open:
		m.lasts = b.lasts
		if v.ByFleet {
			m.lasts = v.Remaining
		}
	}
	return v, m
}

const (
	rampTime = 10 * time.Second
	minRamp  = 0.1
)

// ramp is the share of its turns that a backend may take, 0.1 to 1: it grows linearly in the 10 s after the
// breaker has closed (as in Traefik).
func ramp(since time.Duration) float64 {
	return min(max(minRamp+(1-minRamp)*float64(since)/float64(rampTime), minRamp), 1)
}

// maxEjectionPercent is the share of a pool that may be kept out because of bad answers.
const maxEjectionPercent = 50

// eject decides which of a pool's breakers may keep requests out because of bad answers: the first half of
// the pool that opened, rounded down. So neither a prompt that breaks every backend nor a wrong
// classification of answers can close a pool. A pool of one backend always keeps it. A permission stays until
// the breaker has closed. Backends that cannot be reached need none. size is the number of backends in the
// pool. changed is called for each breaker whose permission has changed: first for those that lost it, so that
// there are never too many.
func eject(pool []*entry, size int, changed func(*entry)) {
	set := func(e *entry, may bool) {
		if e.facts.MayEject != may {
			e.facts.MayEject = may
			changed(e)
		}
	}
	var candidates []*entry
	for _, e := range pool {
		if e.ejects {
			candidates = append(candidates, e)
		} else {
			set(e, false)
		}
	}
	slices.SortFunc(candidates, func(a, b *entry) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Backend, b.Backend))
	})
	maxEjected := min(size*maxEjectionPercent/100, len(candidates))
	for _, e := range candidates[maxEjected:] {
		set(e, false)
	}
	for _, e := range candidates[:maxEjected] {
		set(e, true)
	}
}

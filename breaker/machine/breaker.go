package machine

import "time"

// Version counts the transitions of a local breaker; its two lowest bits are its state.
type Version uint64

// State is that of the local breaker.
func (v Version) State() State { return State(v & 3) }

// Next is the version after a transition.
func (v Version) Next(to State) Version { return (v>>2+1)<<2 | Version(to) }

// Local decides on a backend by what this replica saw of its own calls: gobreaker in the
// gateway, a [Window] in the lab.
type Local interface {
	// Allow asks for a call; nil is a refusal. It may make an open breaker half-open; then it allows one.
	Allow(now time.Time) Report
	Version() Version
}

// Report takes what came of a call that a [Local] allowed. It is called once, or never.
type Report interface {
	Report(o Outcome, now time.Time)
}

// Options make a [Breaker].
type Options struct {
	Config   Config
	Local    func(Config, Version, time.Time) Local // a fresh one, closed, at this version
	Draw     func() float64                         // a random number in [0, 1)
	MayEject bool                                   // it may be kept out before [Eject] has decided
}

// Breaker keeps what one replica knows of one backend. Its methods only change values: none
// calls a Local but for its version. So they may run under a lock, and the calls to the Local,
// which are a [Call]'s, outside.
type Breaker struct {
	Key
	facts Facts
	o     Options

	local   Local
	version Version       // of local, as it was last looked at
	lasts   time.Duration // how long the own open time is in all
	trial   *Call         // who tries a half-open breaker
	period  uint64        // counts the closings

	ejects bool      // it is to be kept out for what the backend answered, if its pool can spare it
	since  time.Time // when what is shown left closed
	ramped time.Time // when it came back to it; zero is never
}

// NewBreaker returns a closed one.
func NewBreaker(k Key, o Options, now time.Time) *Breaker {
	b := &Breaker{Key: k, o: o, facts: Facts{MayEject: o.MayEject}}
	b.renew(o.Config, now)
	return b
}

// renew replaces the local breaker by a fresh, closed one: gobreaker can neither be reset nor
// reconfigured. What calls of the old one report falls on the old one, which is right.
func (b *Breaker) renew(cfg Config, now time.Time) {
	b.o.Config = cfg
	b.version = b.version.Next(Closed)
	b.local = b.o.Local(cfg, b.version, now)
	b.trial = nil
	b.facts.Own = Own{Cut: b.facts.Own.Cut}
}

// Call is a request that is let through, if the breaker permits it.
type Call struct {
	local   Local  // nil: it does not count here
	report  Report // the local breaker's; nil after it was taken
	ending  Report // the same, after the call has ended
	givenUp Report // that of the trial whose place this call takes
	trial   bool
	late    bool    // it ended so late that its outcome would be dropped
	version Version // of the local breaker when the call began
	period  uint64  // the breaker's when the call began
	at      time.Time
}

// Ask begins a call, if the verdict permits it. What follows is [Call.Enter], outside any lock,
// and then [Breaker.Entered] if Enter says so. cfg takes effect where the breaker is closed.
func (b *Breaker) Ask(c *Call, cfg Config, now time.Time) Verdict {
	if b.facts.Own.State == Closed && cfg != b.o.Config {
		b.renew(cfg, now)
	}
	v := Combine(&b.facts, now)
	*c = Call{period: b.period, version: b.version, at: now}
	switch v.Decision {
	case Pass:
		c.local = b.local
	case Trial:
		c.local, c.trial, c.givenUp = b.local, true, b.dropTrial()
		b.trial, b.facts.Own.Trial = c, now.Add(MaxTrial)
	}
	return v
}

// dropTrial gives the place of a trial back. What it returns is to be reported as Neutral.
func (b *Breaker) dropTrial() (left Report) {
	if b.trial != nil {
		left, b.trial.report = b.trial.report, nil
	}
	b.trial, b.facts.Own.Trial = nil, time.Time{}
	return left
}

// Enter asks the local breaker. settled is false where [Breaker.Entered] must be told.
func (c *Call) Enter(now time.Time) (report Report, settled bool) {
	if c.givenUp != nil {
		c.givenUp.Report(Neutral, now) // no evidence either way
		c.givenUp = nil
	}
	if c.local == nil {
		return nil, true
	}
	report = c.local.Allow(now)
	if settled = report != nil && !c.trial && c.local.Version() == c.version; settled {
		c.report = report
	}
	return report, settled
}

// Entered takes what the local breaker said to a call; nil is a refusal. The breaker is to be
// settled behind it, and entered is whether the call may go.
func (b *Breaker) Entered(c *Call, report Report) (entered bool) {
	if report == nil {
		b.Free(c)
		return false
	}
	c.report = report
	if v := c.local.Version(); c.local == b.local && v.State() == HalfOpen {
		b.trial, c.trial = c, true // as was meant, or because all has moved since it asked
		b.version, c.version = v, v
		b.facts.Own = Own{State: HalfOpen, Trial: c.at.Add(MaxTrial), Cut: b.facts.Own.Cut}
	}
	return true
}

// Ended ends a call, first of three steps: the second is [Call.Tell], outside any lock, and the
// third [Breaker.Settle], if Tell says so. evidence is whether the outcome is for other replicas,
// too: the breaker has not closed since the call began.
func (b *Breaker) Ended(c *Call, o Outcome, now time.Time) (evidence bool) {
	c.ending, c.report = c.report, nil
	if c.ending != nil && c.version == b.version {
		if o.Failed() {
			b.facts.Own.Cut = o == Unreachable
		}
		c.late = b.facts.Own.State == Closed && now.Sub(c.at) > b.o.Config.Bucket()*(Buckets-1)
	}
	return c.period == b.period
}

// Tell tells the local breaker. settled is false where the breaker is to be settled.
func (c *Call) Tell(o Outcome, now time.Time) (settled bool) {
	if c.late {
		// A local breaker drops an outcome that is older than its window without a word; a backend
		// that hangs until a 30 s timeout would never be found out. Count it as a call of now.
		c.ending = c.local.Allow(now)
	}
	if c.ending == nil {
		return true
	}
	c.ending.Report(o, now)
	return !c.trial && c.local.Version() == c.version
}

// Free gives the place of a trial that has ended without a verdict to the next.
func (b *Breaker) Free(c *Call) {
	if b.trial == c {
		b.dropTrial()
	}
}

// follow takes over what the local breaker has decided since.
func (b *Breaker) follow(now time.Time) {
	v := b.local.Version()
	if v == b.version {
		return
	}
	b.version = v
	switch v.State() {
	case HalfOpen: // by an outcome that came late: the open time that counts is not over
	case Closed:
		b.facts.Own = Own{Cut: b.facts.Own.Cut}
		b.trial = nil
	case Open:
		b.opened(now)
	}
}

// opened begins an open time of this replica's own.
func (b *Breaker) opened(now time.Time) {
	b.lasts = time.Duration(float64(b.o.Config.Open) * (0.8 + 0.4*b.o.Draw()))
	b.trial = nil
	b.facts.Own = Own{State: Open, Until: now.Add(b.lasts), Cut: b.facts.Own.Cut}
}

// ApplyFleetView takes the fleet's word in. Where the fleet has closed a breaker that was open, what this
// replica knew of before is forgotten.
func (b *Breaker) ApplyFleetView(v View, cfg Config, now time.Time) {
	was := b.facts.Fleet.State
	b.facts.Fleet = v
	if was != Closed && v.State == Closed && b.facts.Own.State != Closed {
		b.renew(cfg, now)
	}
}

// DropFleetView forgets the fleet's word.
func (b *Breaker) DropFleetView() { b.facts.Fleet = View{} }

// Refresh tells that this replica's prober looks at the breaker.
func (b *Breaker) Refresh(now time.Time) { b.facts.Looked = now }

// SuccessesClose is how many probes in a row must succeed.
const SuccessesClose = 2

// Probed takes what an own probe found: the last of enough successes closes this replica's own
// breaker, a fault begins another open time. well is how many have succeeded before, in a row.
// again is whether another probe is to follow; left is to be reported as Neutral.
func (b *Breaker) Probed(o Outcome, well int, cfg Config, now time.Time) (again bool, left Report) {
	alive := o == Success || o == Backpressure
	switch {
	case b.facts.Own.State == Closed:
	case o.Failed():
		left = b.dropTrial()
		b.facts.Own.Cut = o == Unreachable
		b.opened(now)
	case alive && well+1 < SuccessesClose:
		again = true
	case alive:
		b.renew(cfg, now)
	}
	return again, left
}

// Move is a transition to be logged, where From is another than To.
type Move struct {
	From, To State
	Lasts    time.Duration // how long, of a move to open
	ByFleet  bool
	Eject    bool // who of the pool may be kept out is to be decided anew
}

// Settle says what the breaker's facts come to, and what has moved since it was last settled. It
// belongs behind every change.
func (b *Breaker) Settle(now time.Time) (Verdict, Move) {
	b.follow(now)
	v := Combine(&b.facts, now)
	m := Move{From: b.facts.WasShown, To: v.Shown, ByFleet: v.ByFleet}
	b.facts.WasOwn, b.facts.WasShown = b.facts.Own.State, v.Shown
	ejected := b.ejects
	b.ejects = v.Shown != Closed && !v.Unreached
	if m.Eject = v.Moved || b.ejects != ejected; !v.Moved {
		return v, m
	}
	if m.From == Closed {
		b.since = now
	}
	switch v.Shown {
	case Closed:
		b.period++
		b.since, b.ramped = time.Time{}, now
	case Open:
		m.Lasts = b.lasts
		if v.ByFleet {
			m.Lasts = v.Left
		}
	}
	return v, m
}

// Facts are those that the breaker is judged by.
func (b *Breaker) Facts() Facts { return b.facts }

// Verdict says what the breaker's facts come to now, and changes nothing.
func (b *Breaker) Verdict(now time.Time) Verdict { return Combine(&b.facts, now) }

// Refusal is the error of a verdict that refuses.
func (b *Breaker) Refusal(v Verdict) error {
	if v.Decision != Refuse { // the local breaker has refused: another was quicker
		return &OpenError{Key: b.Key, Probing: true}
	}
	return &OpenError{Key: b.Key, Left: v.Left, Probing: v.Probing}
}

// Ramped is when the breaker has last closed; zero is never.
func (b *Breaker) Ramped() time.Time { return b.ramped }

const (
	rampTime = 10 * time.Second
	minRamp  = 0.1
)

// Ramp is the share of its turns that a backend may take, 0.1 to 1: it grows evenly in the
// 10 s after the breaker has closed (Traefik's breaker does so).
func Ramp(since time.Duration) float64 {
	return min(max(minRamp+(1-minRamp)*float64(since)/float64(rampTime), minRamp), 1)
}

package machine

import "time"

// Version counts the transitions of a local breaker; its two lowest bits are its state.
type Version uint64

// State is the local breaker's state.
func (v Version) State() State { return State(v & 3) }

// Next is the version after a transition.
func (v Version) Next(to State) Version { return (v>>2+1)<<2 | Version(to) }

// Local decides about a backend from this replica's own calls: gobreaker in the gateway, a [Window] in the
// lab.
type Local interface {
	// Allow asks for a call; nil is a refusal. It may make an open breaker half-open; then it allows one
	// call.
	Allow(now time.Time) Report
	Version() Version
}

// Report receives the outcome of a call that a [Local] allowed. It is called at most once.
type Report interface {
	Report(o Outcome, now time.Time)
}

// Options configure a [Breaker].
type Options struct {
	Config   Config
	Local    func(Config, Version, time.Time) Local // makes a new one, closed, at this version
	Draw     func() float64                         // a random number in [0, 1)
	MayEject bool                                   // it may be kept out before [Eject] has decided
}

// Breaker is one replica's state of one backend. Its methods only change values and call nothing of a Local
// except its version. So they may run under a lock, while a [Call] calls the Local outside of it.
type Breaker struct {
	Key
	facts Facts
	o     Options

	local   Local
	version Version       // of local, when last read
	lasts   time.Duration // total duration of the own open time
	trial   *Call         // the call that tries a half-open breaker
	period  uint64        // number of closings

	ejects bool      // to be kept out because of its answers, if its pool allows it
	since  time.Time // when the shown state left closed
	ramped time.Time // when it closed again; zero is never
}

// NewBreaker returns a closed one.
func NewBreaker(k Key, o Options, now time.Time) *Breaker {
	b := &Breaker{Key: k, o: o, facts: Facts{MayEject: o.MayEject}}
	b.renew(o.Config, now)
	return b
}

// renew replaces the local breaker by a new closed one, because gobreaker can neither be reset nor
// reconfigured. Reports of earlier calls go to the old one, as they should.
func (b *Breaker) renew(cfg Config, now time.Time) {
	b.o.Config = cfg
	b.version = b.version.Next(Closed)
	b.local = b.o.Local(cfg, b.version, now)
	b.trial = nil
	b.facts.Own = Own{Cut: b.facts.Own.Cut}
}

// Call is one request that asks the breaker for permission.
type Call struct {
	local          Local  // nil: its outcome does not count here
	report         Report // the local breaker's; nil after it was used
	ending         Report // the same, after the end of the call
	replacedReport Report // that of the trial that this call replaces
	trial          bool
	late           bool    // it ended so late that the local breaker would drop its outcome
	version        Version // of the local breaker when the call began
	period         uint64  // of the breaker when the call began
	at             time.Time
}

// Ask begins a call, if the verdict permits it. Then call [Call.Enter], outside any lock, and
// [Breaker.Entered] if Enter says so. cfg takes effect if the breaker is closed.
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
		c.local, c.trial, c.replacedReport = b.local, true, b.dropTrial()
		b.trial, b.facts.Own.TrialDeadline = c, now.Add(MaxTrial)
	}
	return v
}

// dropTrial ends a trial without a verdict. The caller reports the result as Neutral.
func (b *Breaker) dropTrial() (left Report) {
	if b.trial != nil {
		left, b.trial.report = b.trial.report, nil
	}
	b.trial, b.facts.Own.TrialDeadline = nil, time.Time{}
	return left
}

// Enter asks the local breaker. If settled is false, [Breaker.Entered] must be called.
func (c *Call) Enter(now time.Time) (report Report, settled bool) {
	if c.replacedReport != nil {
		c.replacedReport.Report(Neutral, now) // no evidence either way
		c.replacedReport = nil
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

// Entered receives the local breaker's answer; nil is a refusal. The breaker must be settled afterwards.
// entered reports whether the call may go.
func (b *Breaker) Entered(c *Call, report Report) (entered bool) {
	if report == nil {
		b.Free(c)
		return false
	}
	c.report = report
	if v := c.local.Version(); c.local == b.local && v.State() == HalfOpen {
		b.trial, c.trial = c, true // as planned, or because the state has changed since Ask
		b.version, c.version = v, v
		b.facts.Own = Own{State: HalfOpen, TrialDeadline: c.at.Add(MaxTrial), Cut: b.facts.Own.Cut}
	}
	return true
}

// Ended is the first of three steps that end a call: the second is [Call.Tell], outside any lock, and the
// third [Breaker.Settle], if Tell says so. evidence reports whether the outcome is for other replicas, too:
// the breaker has not closed since the call began.
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

// Tell reports to the local breaker. If settled is false, the breaker must be settled.
func (c *Call) Tell(o Outcome, now time.Time) (settled bool) {
	if c.late {
		// A local breaker silently drops an outcome that is older than its window; a backend that hangs until
		// a 30 s timeout would never be detected. So it is counted as a new call.
		c.ending = c.local.Allow(now)
	}
	if c.ending == nil {
		return true
	}
	c.ending.Report(o, now)
	return !c.trial && c.local.Version() == c.version
}

// Free allows the next trial after one that ended without a verdict.
func (b *Breaker) Free(c *Call) {
	if b.trial == c {
		b.dropTrial()
	}
}

// follow updates the state to the local breaker's.
func (b *Breaker) follow(now time.Time) {
	v := b.local.Version()
	if v == b.version {
		return
	}
	b.version = v
	switch v.State() {
	case HalfOpen: // by a late outcome: the open time that counts is not over
	case Closed:
		b.facts.Own = Own{Cut: b.facts.Own.Cut}
		b.trial = nil
	case Open:
		b.opened(now)
	}
}

// opened begins an open time of this replica.
func (b *Breaker) opened(now time.Time) {
	b.lasts = time.Duration(float64(b.o.Config.Open) * (0.8 + 0.4*b.o.Draw()))
	b.trial = nil
	b.facts.Own = Own{State: Open, Until: now.Add(b.lasts), Cut: b.facts.Own.Cut}
}

// ApplyFleetView applies the fleet's state. If the fleet has closed an open breaker, this replica's earlier
// observations are deleted.
func (b *Breaker) ApplyFleetView(v View, cfg Config, now time.Time) {
	was := b.facts.Fleet.State
	b.facts.Fleet = v
	if was != Closed && v.State == Closed && b.facts.Own.State != Closed {
		b.renew(cfg, now)
	}
}

// DropFleetView deletes the fleet's state.
func (b *Breaker) DropFleetView() { b.facts.Fleet = View{} }

// Refresh records that this replica's prober checks the breaker.
func (b *Breaker) Refresh(now time.Time) { b.facts.Looked = now }

// SuccessesClose is how many probes in a row must succeed.
const SuccessesClose = 2

// Probed applies the result of an own probe: the last required success closes this replica's breaker, a fault
// begins another open time. well is the number of earlier successes in a row. again asks for another probe;
// the caller reports left as Neutral.
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

// Move is a transition, to be logged if From differs from To.
type Move struct {
	From, To State
	Lasts    time.Duration // for a move to open
	ByFleet  bool
	Eject    bool // the pool's ejections must be decided again
}

// Settle evaluates the breaker's facts, and returns the transition since the last call. Call it after every
// change.
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
			m.Lasts = v.Remaining
		}
	}
	return v, m
}

// Facts returns the facts that the verdict depends on.
func (b *Breaker) Facts() Facts { return b.facts }

// Verdict evaluates the breaker's facts now, without changes.
func (b *Breaker) Verdict(now time.Time) Verdict { return Combine(&b.facts, now) }

// Refusal is the error of a verdict that refuses.
func (b *Breaker) Refusal(v Verdict) error {
	if v.Decision != Refuse { // the local breaker has refused: another call was faster
		return &OpenError{Key: b.Key, Probing: true}
	}
	return &OpenError{Key: b.Key, Remaining: v.Remaining, Probing: v.Probing}
}

// Ramped is when the breaker last closed; zero is never.
func (b *Breaker) Ramped() time.Time { return b.ramped }

const (
	rampTime = 10 * time.Second
	minRamp  = 0.1
)

// Ramp is the share of its turns that a backend may take, 0.1 to 1: it grows linearly in the 10 s after the
// breaker has closed (as in Traefik).
func Ramp(since time.Duration) float64 {
	return min(max(minRamp+(1-minRamp)*float64(since)/float64(rampTime), minRamp), 1)
}

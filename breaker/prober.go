package breaker

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/foregate/foregate/panics"
)

const (
	// lease is how long whoever tests a breaker is waited for; probeWait is shorter.
	lease     = 5 * time.Second
	probeWait = 2 * time.Second
	// successesClose is how many probes in a row must succeed, successPause apart.
	successesClose = 2
	successPause   = 100 * time.Millisecond
	// probeSpread is the most that a replica waits before it asks for the lease, so that
	// a fleet does not ask at once.
	probeSpread = 250 * time.Millisecond
)

// What a probe found, as metrics name it: a closed set.
const (
	probeWell    = "success"
	probeFault   = "fault"
	probeNeutral = "neutral" // says nothing: it was this replica that gave up
	probeLate    = "late"    // another replica had taken the lease over
)

// wanted reports whether a test is due: one for the fleet, by whoever gets the lease, or
// one of this replica alone, where the fleet finds the backend well or says nothing.
func (e *entry) wanted(now time.Time) (due, alone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.view.fresh(now) && e.view.phase != closed:
		return e.view.due(now), false
	case e.ruled(now): // by a word that is not fresh any more
		return false, false
	case e.phase == closed,
		e.phase == open && now.Before(e.until),
		e.trial != nil && now.Sub(e.trial.at) < trialBound:
		return false, false
	}
	return true, true
}

// start runs a test, unless too many are under way.
func (l *loop) start(ctx context.Context, e *entry, alone bool) {
	select {
	case l.slots <- struct{}{}:
	default:
		e.probing.Store(false)
		return
	}
	s := l.set
	l.probes.Go(func() {
		defer func() {
			<-l.slots
			e.probing.Store(false)
			if s.ear != nil {
				s.ear.nudge() // to read what came of it
			}
		}()
		defer panics.Caught(ctx)
		switch {
		case !sleep(ctx, mathrand.N(probeSpread)):
		case alone:
			s.testForSelf(ctx, e)
		default:
			s.testForAll(ctx, e)
		}
	})
}

// once probes a backend and says what came of it. A backend that is busy is alive.
func (s *Set) once(ctx context.Context, e *entry) (Outcome, string) {
	bounded, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	err := s.probe(bounded, e.pool, e.backend)
	o := Neutral
	switch {
	case ctx.Err() != nil: // this replica is ending
	case err != nil && bounded.Err() != nil:
		o = Fault // no answer in time
	default:
		o = s.classify(err)
	}
	found := probeNeutral
	switch o {
	case Success, Backpressure:
		o, found = Success, probeWell
	case Fault, Unreachable:
		found = probeFault
	}
	return o, found
}

// testForAll tests a breaker that is due for the fleet, if this replica gets the lease.
// Whoever tells nothing within the lease is replaced, and not believed any more.
func (s *Set) testForAll(ctx context.Context, e *entry) {
	token := rand.Text()
	granted, err := s.one(ctx, 2, run(acquireScript, e.key, token, lease.Milliseconds(), fleetLongest.Milliseconds()))
	if err != nil || granted[0] != 1 {
		return
	}
	for {
		o, found := s.once(ctx, e)
		if o == Neutral {
			s.metrics.probes.WithLabelValues(found).Inc()
			return
		}
		state, err := s.one(ctx, 3, run(resultScript, e.key, token, flag(o == Success), successesClose,
			fleetOpen.Milliseconds(), fleetLongest.Milliseconds(), lease.Milliseconds(), spread(), flag(o == Unreachable), channelEvents))
		if err == nil && state[0] < 0 {
			found = probeLate
		}
		s.metrics.probes.WithLabelValues(found).Inc()
		if err != nil || state[0] != 1 || !sleep(ctx, successPause) {
			return
		}
	}
}

// testForSelf tests a breaker that is open on this replica alone: it is its own way to the
// backend that is in doubt, so there is no lease. A fault is evidence, as one of a request is.
func (s *Set) testForSelf(ctx context.Context, e *entry) {
	for range successesClose {
		o, found := s.once(ctx, e)
		s.metrics.probes.WithLabelValues(found).Inc()
		if o != Success {
			s.tell(e, e.reopen(o, time.Now()))
			return
		}
		if !sleep(ctx, successPause) {
			return
		}
	}
	s.tell(e, e.mend(s.config().orDefaults(), time.Now()))
}

// reopen begins another open time of this replica's own after a test that did not succeed.
func (e *entry) reopen(o Outcome, now time.Time) move {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.evidence.note(o, now.Sub(e.base))
	if e.phase != closed && o != Neutral {
		e.phase, e.trial, e.cut = open, nil, o == Unreachable
		e.age++
		e.opened(now)
	}
	return e.show(now)
}

// mend closes this replica's own breaker.
func (e *entry) mend(cfg Config, now time.Time) move {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase != closed {
		e.fresh(cfg)
	}
	return e.show(now)
}

// one runs a script that answers n numbers.
func (s *Set) one(ctx context.Context, n int, a ask) ([]int64, error) {
	asks := []ask{a}
	if err := s.link.exchange(ctx, asks); err != nil {
		return nil, err
	}
	got, _, err := asks[0].numbers(n)
	if err != nil {
		s.link.errors.Inc()
	}
	return got, err
}

// flag is a truth as scripts read it.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

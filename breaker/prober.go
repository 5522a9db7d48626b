package breaker

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

const (
	// lease is how long a testing replica may stay silent; probeWait is shorter.
	lease     = 5 * time.Second
	probeWait = 2 * time.Second
	// successPause is the pause between the probes that must succeed in a row.
	successPause = 100 * time.Millisecond
	// probeSpread is the longest random wait before a replica asks for the lease, so that a fleet does not
	// ask at once.
	probeSpread = 250 * time.Millisecond
)

// start runs a test, unless too many are in progress.
func (l *loop) start(ctx context.Context, e *entry, probe probeKind) {
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
			s.wake() // to read the result
		}()
		defer panics.Recover(ctx)
		if !sleep(ctx, mathrand.N(probeSpread)) {
			return
		}
		restarted := false
		s.change(e, s.now(), func() { restarted, e.facts.Restarted = e.facts.Restarted, false })
		if probe == probeOwn {
			s.testForSelf(ctx, e)
		} else {
			s.testForAll(ctx, e, restarted)
		}
	})
}

// once probes a backend and returns the result. A busy backend is alive; Neutral is a probe that says nothing.
func (s *Set) once(ctx context.Context, e *entry) Outcome {
	bounded, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	err := s.probe(bounded, e.Pool, e.Backend)
	switch {
	case ctx.Err() != nil: // this replica stops
		return Neutral
	case err != nil && bounded.Err() != nil:
		return Fault // no answer in time
	}
	if o := s.classify(err); o != Backpressure {
		return o
	}
	return Success
}

// testForAll tests a breaker that is due for the fleet, if this replica gets the lease. A replica that
// reports nothing within the lease is replaced, and its later result is ignored. early tests it before its open time is over.
func (s *Set) testForAll(ctx context.Context, e *entry, early bool) {
	token := rand.Text()
	granted, err := s.link.one(ctx, acquireScript, e.Key, token, lease.Milliseconds(), maxFleetOpen.Milliseconds(), flag(early))
	if err != nil || granted != 1 {
		return
	}
	for {
		o := s.once(ctx, e)
		if o == Neutral {
			return
		}
		state, err := s.link.one(ctx, resultScript, e.Key, token, flag(o == Success), successesClose,
			fleetOpen.Milliseconds(), maxFleetOpen.Milliseconds(), lease.Milliseconds(), spread(), flag(o == Unreachable))
		if err != nil || state != 1 || !sleep(ctx, successPause) {
			return
		}
	}
}

// testForSelf tests a breaker that is open on this replica alone. Its own connection to the backend is in
// doubt, so there is no lease. A fault is evidence, like that of a request.
func (s *Set) testForSelf(ctx context.Context, e *entry) {
	for well, again := 0, true; again; well++ {
		o := s.once(ctx, e)
		cfg, now := s.config().OrDefaults(), s.now()
		s.change(e, now, func() {
			if o.Failed() {
				e.evidence.note(newsOf(o), now.Sub(s.base))
			}
			again = e.probed(o, well, cfg, now)
		})
		again = again && sleep(ctx, successPause)
	}
}

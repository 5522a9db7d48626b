package breaker

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/foregate/foregate/breaker/machine"
	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/internal/redis/script"
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

// Results of a probe in metrics: a closed set.
const (
	probeWell    = "success"
	probeFault   = "fault"
	probeNeutral = "neutral" // this replica cancelled it
	probeLate    = "late"    // another replica had taken over the lease
)

// start runs a test, unless too many are in progress.
func (l *loop) start(ctx context.Context, e *entry, probe machine.Probe) {
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
			if s.events != nil {
				s.events.notify() // to read the result
			}
		}()
		defer panics.Recover(ctx)
		switch {
		case !sleep(ctx, mathrand.N(probeSpread)):
		case probe == machine.OwnProbe:
			s.testForSelf(ctx, e)
		default:
			s.testForAll(ctx, e)
		}
	})
}

// once probes a backend and returns the result. A busy backend is alive.
func (s *Set) once(ctx context.Context, e *entry) (machine.Outcome, string) {
	bounded, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	err := s.probe(bounded, e.Pool, e.Backend)
	o := machine.Neutral
	switch {
	case ctx.Err() != nil: // this replica stops
	case err != nil && bounded.Err() != nil:
		o = machine.Fault // no answer in time
	default:
		o = s.classify(err)
	}
	found := probeNeutral
	switch o {
	case machine.Success, machine.Backpressure:
		o, found = machine.Success, probeWell
	case machine.Fault, machine.Unreachable:
		found = probeFault
	}
	return o, found
}

// testForAll tests a breaker that is due for the fleet, if this replica gets the lease. A replica that
// reports nothing within the lease is replaced, and its later result is ignored.
func (s *Set) testForAll(ctx context.Context, e *entry) {
	token := rand.Text()
	granted, err := s.one(ctx, 2, acquireScript, e.Key, token, lease.Milliseconds(), maxFleetOpen.Milliseconds())
	if err != nil || granted[0] != 1 {
		return
	}
	for {
		o, found := s.once(ctx, e)
		if o == machine.Neutral {
			s.metrics.probes.WithLabelValues(found).Inc()
			return
		}
		state, err := s.one(ctx, 3, resultScript, e.Key, token, flag(o == machine.Success), machine.SuccessesClose,
			fleetOpen.Milliseconds(), maxFleetOpen.Milliseconds(), lease.Milliseconds(), spread(), flag(o == machine.Unreachable), channelEvents)
		if err == nil && state[0] < 0 {
			found = probeLate
		}
		s.metrics.probes.WithLabelValues(found).Inc()
		if err != nil || state[0] != 1 || !sleep(ctx, successPause) {
			return
		}
	}
}

// testForSelf tests a breaker that is open on this replica alone. Its own connection to the backend is in
// doubt, so there is no lease. A fault is evidence, like that of a request.
func (s *Set) testForSelf(ctx context.Context, e *entry) {
	for well, again := 0, true; again; well++ {
		o, found := s.once(ctx, e)
		s.metrics.probes.WithLabelValues(found).Inc()
		cfg, now := s.config().OrDefaults(), time.Now()
		var left machine.Report
		s.change(e, now, func() {
			if o.Failed() {
				e.evidence.note(newsOf(o), now.Sub(s.base))
			}
			again, left = e.Probed(o, well, cfg, now)
		})
		if left != nil {
			left.Report(machine.Neutral, now)
		}
		again = again && sleep(ctx, successPause)
	}
}

// one runs a script that returns n numbers.
func (s *Set) one(ctx context.Context, n int, run *script.Script, k machine.Key, args ...any) ([]int64, error) {
	pipe := s.link.scripts.Pipeline()
	cmd := queue(ctx, pipe, run, k, args...)
	if err := s.link.send(ctx, pipe); err != nil {
		return nil, err
	}
	got, _, err := numbers(cmd, n)
	if err != nil {
		s.link.errors.Inc()
	}
	return got, err
}

// flag encodes a boolean for scripts.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

package breaker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/foregate/foregate/breaker/machine"
)

// entry is one backend's breaker with the data around it: times that a pick reads without a lock, and
// evidence for the other replicas.
type entry struct {
	*machine.Breaker // guarded by the set's mu, like evidence and the two fields after it
	outcomes         outcomes

	// Nanoseconds since the set's base until which Open is true; 0 is never.
	shut atomic.Int64
	// The same for Shut.
	broken atomic.Int64
	// Nanoseconds since base when the last ramp began; 0 is none.
	ramping atomic.Int64
	// This replica is probing it.
	probing atomic.Bool

	evidence evidence // not yet sent to the fleet

	// The successes of the last ten seconds that were sent to the other replicas. They are revoked if this
	// replica's own breaker opens: a backend that worked until now has more successes than faults on every
	// replica, and otherwise would be open only locally on each of them. Successes of replicas that still see
	// it work remain.
	sent   evidence
	revoke bool

	// Used only by the goroutine of Run.
	read    time.Time // when it was last read in Redis
	trouble bool      // its key there is invalid, and that was logged
}

// publish sets the values that a pick reads.
func (e *entry) publish(v *machine.Verdict, base time.Time) {
	until := int64(0)
	if !v.Until.IsZero() {
		until = int64(v.Until.Sub(base))
	}
	e.broken.Store(until)
	if v.EjectionCapped {
		until = 0
	}
	e.shut.Store(until)
}

// local adapts a gobreaker to [machine.Local]. gobreaker's callbacks run under its lock, and only under that
// one, because it is always called without ours. So the callbacks take no lock: they read their arguments and
// write one atomic.
type local struct {
	cb      *gobreaker.TwoStepCircuitBreaker[struct{}]
	version atomic.Uint64
}

// Errors for gobreaker, one per class of outcome.
var (
	errFault    = errors.New("fault")
	errExcluded = errors.New("excluded")
)

func newLocal(cfg machine.Config, v machine.Version, _ time.Time) machine.Local {
	l := &local{}
	l.version.Store(uint64(v))
	l.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](l.settings(cfg))
	return l
}

func (l *local) settings(cfg machine.Config) gobreaker.Settings {
	return gobreaker.Settings{
		MaxRequests:  1,
		Interval:     cfg.Bucket() * machine.Buckets,
		BucketPeriod: cfg.Bucket(),
		Timeout:      cfg.Timeout(),
		IsExcluded:   func(err error) bool { return errors.Is(err, errExcluded) },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return cfg.Trips(int(c.TotalSuccesses), int(c.TotalFailures), int(c.ConsecutiveFailures))
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			l.version.Store(uint64(l.Version().Next(machine.State(to))))
		},
	}
}

// Version implements [machine.Local].
func (l *local) Version() machine.Version { return machine.Version(l.version.Load()) }

// Allow implements [machine.Local].
func (l *local) Allow(time.Time) machine.Report {
	done, err := l.cb.Allow()
	if err != nil {
		return nil
	}
	return report(done)
}

// report adapts gobreaker's done function.
type report func(error)

// Report implements [machine.Report].
func (r report) Report(o machine.Outcome, _ time.Time) {
	switch {
	case o == machine.Success:
		r(nil)
	case o.Failed():
		r(errFault)
	default:
		r(errExcluded)
	}
}

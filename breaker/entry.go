package breaker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/foregate/foregate/breaker/machine"
)

// entry is one backend's breaker, and what surrounds it in the gateway: times that a pick
// reads without a lock, and what is to be told to the other replicas.
type entry struct {
	*machine.Breaker // guarded by the set's mu, as are evidence and the two behind it
	outcomes         outcomes

	// Nanoseconds since the set's base until which Open is true; 0 is never.
	shut atomic.Int64
	// The same for Shut.
	broken atomic.Int64
	// Nanoseconds since base when the last ramp began; 0 is none.
	ramping atomic.Int64
	// Somebody probes it from here.
	probing atomic.Bool

	evidence evidence // for the fleet

	// The successes of the last ten seconds that the other replicas were told of, which are taken back (revoke) where
	// this replica's own breaker opens: a backend that was well until a moment ago has more of them than faults,
	// whoever asks, and would be open for each replica alone. Those of replicas that find it well go on counting.
	sent   evidence
	revoke bool

	// Of the goroutine of Run.
	read    time.Time // when it was last asked for in Redis
	trouble bool      // its key there is of no use, and that was logged
}

// publish sets what a pick reads.
func (e *entry) publish(v *machine.Verdict, base time.Time) {
	until := int64(0)
	if !v.Until.IsZero() {
		until = int64(v.Until.Sub(base))
	}
	e.broken.Store(until)
	if v.Spared {
		until = 0
	}
	e.shut.Store(until)
}

// local is a gobreaker as a [machine.Local]. What gobreaker calls back runs under its lock, and
// only under that one: all its calls are made without ours. So the callbacks take no lock; they
// read their arguments and write one atomic.
type local struct {
	cb      *gobreaker.TwoStepCircuitBreaker[struct{}]
	version atomic.Uint64
}

// What gobreaker is told; the classes have been decided before.
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

// report is gobreaker's done.
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

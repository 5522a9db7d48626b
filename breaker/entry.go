package breaker

import (
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/internal/blame"
)

// entry is one backend's breaker with the data around it: times that a pick reads without a lock, and
// evidence for the other replicas.
type entry struct {
	backend // guarded by the set's mu, like blame, evidence and the two fields after it

	// Nanoseconds since the set's base until which Open is true; 0 is never.
	shut atomic.Int64
	// The same for Shut.
	broken atomic.Int64
	// Nanoseconds since base when the last ramp began; 0 is none.
	ramping atomic.Int64
	// This replica is probing it.
	probing atomic.Bool

	blame    blame.Blame // which faults count
	evidence evidence    // not yet sent to the fleet

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
func (e *entry) publish(v *verdict, base time.Time) {
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

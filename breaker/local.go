package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Local judges a backend by this replica's own calls while its breaker is closed: gobreaker in the gateway, and in the
// lab the same rule with its clock. It is only used under the set's lock, and replaced when it has tripped.
type Local interface {
	// Count counts an outcome, and reports whether the breaker opens.
	Count(failed bool, now time.Time) (trips bool)
	// Counts are the successes and faults of the window.
	Counts(now time.Time) (successes, faults int)
}

// gobreak is a gobreaker with our settings. It has its own clock.
type gobreak struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
}

var errFault = errors.New("fault")

func newGobreak(cfg Config, _ time.Time) Local {
	return gobreak{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval:     Bucket * Buckets,
		BucketPeriod: Bucket,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return cfg.Trips(int(c.TotalSuccesses), int(c.TotalFailures), int(c.ConsecutiveFailures))
		},
	})}
}

// Count implements [Local]. For gobreaker a call begins when it has ended: of a backend that hangs until a time-out all
// calls began before the window.
func (l gobreak) Count(failed bool, _ time.Time) bool {
	if done, err := l.Allow(); err == nil && failed {
		done(errFault)
	} else if err == nil {
		done(nil)
	}
	return l.State() == gobreaker.StateOpen
}

// Counts implements [Local].
func (l gobreak) Counts(time.Time) (successes, faults int) {
	_ = l.State() // old buckets leave
	c := l.TwoStepCircuitBreaker.Counts()
	return int(c.TotalSuccesses), int(c.TotalFailures)
}

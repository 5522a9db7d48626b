package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Local judges a backend by this replica's own calls: gobreaker in the gateway, and in the lab the same rule with
// its clock. It is only used under the set's lock.
type Local interface {
	// Allow asks for a call; nil is a refusal. It may make an open breaker half-open; then it allows one call.
	// The function receives the call's outcome, at most once.
	Allow(now time.Time) (report func(o Outcome, now time.Time))
	State() State
}

// gobreak is a gobreaker with our settings. It has its own clock.
type gobreak struct {
	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	state State
}

// Errors for gobreaker, one per class of outcome.
var (
	errFault    = errors.New("fault")
	errExcluded = errors.New("excluded")
)

func newGobreak(cfg Config, _ time.Time) Local {
	l := &gobreak{}
	l.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     Bucket * Buckets,
		BucketPeriod: Bucket,
		Timeout:      cfg.Timeout(),
		IsExcluded:   func(err error) bool { return errors.Is(err, errExcluded) },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return cfg.Trips(int(c.TotalSuccesses), int(c.TotalFailures), int(c.ConsecutiveFailures))
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { l.state = State(to) },
	})
	return l
}

// State implements [Local].
func (l *gobreak) State() State { return l.state }

// Allow implements [Local].
func (l *gobreak) Allow(time.Time) func(Outcome, time.Time) {
	done, err := l.cb.Allow()
	if err != nil {
		return nil
	}
	return func(o Outcome, _ time.Time) {
		switch {
		case o == Success:
			done(nil)
		case o.Failed():
			done(errFault)
		default:
			done(errExcluded)
		}
	}
}

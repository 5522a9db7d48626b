package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Config is the live configuration of the breakers. A change takes effect once a breaker is closed.
type Config struct {
	Failures int `setting:"breaker.max_failures,fleet" default:"5" min:"1" max:"1000" doc:"Failures, in a row or within 10 s, that open a backend's circuit breaker."`

	// Open is how long this replica's own breaker stays open, ×0.8–1.2 at random: without Redis, or if the other replicas
	// see the backend work. One that is open for the fleet is tested after 2 s, then 4, 8 … 30 s.
	Open time.Duration `setting:"breaker.open_duration,fleet" default:"10s" min:"100ms" max:"10m" doc:"How long a breaker that is open on this replica only, or without Redis, stays open before a trial request. A breaker that is open on all replicas is probed after 2 s, 4 s and so on, up to every 30 s."`
}

// An outcome counts for ten buckets; the oldest one is dropped when a new one begins.
const (
	Bucket  = time.Second
	Buckets = 10
)

// minFinished is how many calls must have finished within the window before their share of faults counts, here
// or for the fleet.
const minFinished = 5

// Trips decides whether the outcomes of a window open a breaker. inRow is the number of faults since the last
// success. The share refers to finished calls: otherwise a burst of slow calls in progress would hide that
// all fail.
func (c Config) Trips(successes, faults, inRow int) bool {
	finished := successes + faults
	return inRow >= c.Failures || finished >= max(minFinished, c.Failures) && 2*faults >= finished
}

// Outcome is what a finished call says about its backend.
type Outcome int

// The classes. A client's own mistake (a 4xx other than 429) is a Success, because the backend is alive and
// answered. Otherwise one client could open breakers for all.
const (
	Success      Outcome = iota // the backend answered correctly, or refused a mistake of the client
	Fault                       // reset, timed out, 5xx, cut stream, finish_reason "abort"
	Unreachable                 // no connection; no request can cause it, so max ejection does not apply
	Backpressure                // 429, or 503 with Retry-After. Shift load; never opens
	Neutral                     // says nothing about the backend, for example because the client left
)

// Failed reports whether the outcome may open a breaker.
func (o Outcome) Failed() bool { return o == Fault || o == Unreachable }

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
func (g gobreak) Count(failed bool, _ time.Time) bool {
	if done, err := g.Allow(); err == nil {
		done(map[bool]error{true: errFault}[failed])
	}
	return g.State() == gobreaker.StateOpen
}

// Counts implements [Local].
func (g gobreak) Counts(time.Time) (successes, faults int) {
	_ = g.State() // old buckets leave
	c := g.TwoStepCircuitBreaker.Counts()
	return int(c.TotalSuccesses), int(c.TotalFailures)
}

package breaker

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Config is the live configuration of the breakers. A change takes effect at the next request if a breaker is closed,
// and after it has closed if it is open.
type Config struct {
	Failures int // consecutive faults that open (default 5)

	// Open is how long this replica's own breaker stays open, ×0.8–1.2 at random (default 10 s): without
	// Redis, or if the other replicas see the backend work. A breaker that is open for the fleet is tested
	// after 2 s, then 4, 8 … 30 s, independent of this setting.
	Open time.Duration
}

// An outcome counts for ten buckets; the oldest one is dropped when a new one begins.
const (
	Bucket  = time.Second
	Buckets = 10
)

// DefaultConfig returns the default values.
func DefaultConfig() Config { return Config{Failures: 5, Open: 10 * time.Second} }

// OrDefaults replaces values that are zero or out of range by their defaults.
func (c Config) OrDefaults() Config {
	d := DefaultConfig()
	return Config{Failures: cmp.Or(max(c.Failures, 0), d.Failures), Open: cmp.Or(max(c.Open, 0), d.Open)}
}

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

// Classify is the default classification: no error is a Success, a cancelled context is Neutral, any other
// error a Fault.
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled):
		return Neutral
	default:
		return Fault
	}
}

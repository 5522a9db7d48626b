// Package machine is the circuit breaker of one backend as arithmetic: values go in and come out,
// with the time among them. It has no clock, lock, logger, network or random source of its own.
//
// Start at [Combine], the table of how a replica's own breaker and the fleet's word decide together.
// A [Breaker] keeps the facts of that table for one backend. What it saw of its own calls is judged
// by a [Local]: gobreaker in the gateway (package breaker), [Window] in the lab. Both follow the same
// rules, transition by transition. [Set] is the breakers of a replica in the lab.
package machine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may tune of the breakers, live. A change takes
// effect with a backend's next fresh breaker: at the next request where it is
// closed, and after it has closed where it is open.
type Config struct {
	Failures int           // consecutive faults that open (default 5)
	Window   time.Duration // how long an outcome counts, in ten buckets (default 10 s)

	// Open is how long a breaker of this replica's own stays open, ×0.8–1.2 at random
	// (default 10 s): without Redis, or where others find the backend well. One that
	// is open for the fleet is tested after 2 s, then 4, 8 … 30 s, whatever this says.
	Open time.Duration
}

// Buckets is into how many parts the window is cut; the oldest falls out as a new one begins.
const Buckets = 10

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{Failures: 5, Window: 10 * time.Second, Open: 10 * time.Second}
}

// OrDefaults replaces what is zero or out of range by its default.
func (c Config) OrDefaults() Config {
	d := DefaultConfig()
	if c.Failures <= 0 {
		c.Failures = d.Failures
	}
	if c.Window < Buckets {
		c.Window = d.Window
	}
	if c.Open <= 0 {
		c.Open = d.Open
	}
	return c
}

// Bucket is the length of one part of the window.
func (c Config) Bucket() time.Duration { return c.Window / Buckets }

// Timeout is after how long an open [Local] lets a call in. It is less than any open time of a
// [Breaker], which is random and is the one that counts.
func (c Config) Timeout() time.Duration { return max(c.Open/2, 1) } // gobreaker takes 0 for 60 s

// minFinished is how many calls must have finished within the window before their share of faults
// means something.
const minFinished = 5

// Trips decides whether the outcomes of a window open a breaker. inRow are the last faults in a row.
// The share is that of finished calls: a burst of slow calls that are under way would hide that all fail.
func (c Config) Trips(successes, faults, inRow int) bool {
	if inRow >= c.Failures {
		return true
	}
	finished := successes + faults
	return finished >= max(minFinished, c.Failures) && 2*faults >= finished
}

// Outcome is what a finished call says about its backend.
type Outcome int

// The classes. A client's own mistake (a 4xx other than 429) is a Success:
// the backend is alive and answered. Counting it otherwise has let one client
// open breakers for all.
const (
	// Success: the backend answered as it should, or refused the client's mistake.
	Success Outcome = iota
	// Fault: reset, timed out, 5xx, cut stream, finish_reason "abort".
	Fault
	// Unreachable: a fault before there was a connection: refused, no route, no such
	// name. No request can be to blame for it, so max ejection does not hold for it.
	Unreachable
	// Backpressure: 429, or 503 with Retry-After. Shift load; never opens.
	Backpressure
	// Neutral: says nothing about the backend, such as a client that left.
	Neutral
)

// Failed reports whether the outcome may open a breaker.
func (o Outcome) Failed() bool { return o == Fault || o == Unreachable }

// String is the outcome's name in metrics and logs.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Fault:
		return "fault"
	case Unreachable:
		return "unreachable"
	case Backpressure:
		return "backpressure"
	default:
		return "neutral"
	}
}

// Classify is the judgement used where nothing else is given: no error is a
// Success, a cancelled context is Neutral, any other error a Fault.
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

// Key names a breaker.
type Key struct{ Pool, Backend string }

// ErrOpen matches every refusal of a breaker.
var ErrOpen = errors.New("breaker open")

// OpenError tells which breaker refused and for how long it still will.
type OpenError struct {
	Key
	Left    time.Duration // until it may be tried; an upper bound while Probing
	Probing bool          // somebody tests it, or is about to
}

// Error carries the numbers.
func (e *OpenError) Error() string {
	if e.Probing {
		return fmt.Sprintf("breaker of backend %s (pool %s) is half-open and being tried", e.Backend, e.Pool)
	}
	return fmt.Sprintf("breaker of backend %s (pool %s) is open for another %s",
		e.Backend, e.Pool, e.Left.Round(time.Millisecond))
}

// Is matches ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

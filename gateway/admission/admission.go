// Package admission decides when a request may go to a pool that is short of memory:
// at once, after a wait in a queue, or not at all. Start at [Queue], the queue of one pool:
// it has no clock and no lock. [Queues] runs one for each pool of a replica.
//
// Each priority class has a KV-usage threshold up to which its requests may fill a backend.
// The pool decides whether a backend has that capacity (pool.FullError), from its readings, the
// requests in flight and their expected growth. If every backend is at the threshold of a class,
// the class is shed at once. Otherwise a request without capacity waits, at most as long as its
// class allows, and is then shed. High is served before normal and low; within a class the tenants
// take turns. A request that waits for the backend with its cached prefix, while another backend has
// capacity, blocks nobody and uses the other backend in the end. Shedding of a class ends only
// at a lower usage than it began at (hysteresis).
//
// It guarantees that queues and waits are bounded, that a request whose answer has begun is
// never shed, and that every refusal has a reason and a Retry-After.
package admission

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// Config is what an operator may tune of shedding, live and by route.
type Config struct {
	Low, Normal, High float64 // KV usage at which the class is shed, 0 … 1; 0 sheds all of it (shed.low, shed.normal, shed.high)
	Hysteresis        float64 // shedding ends this far below the threshold (shed.hysteresis)
	QueueDepth        int     // waiting requests per backend above which low is shed; 0 is off (shed.queue_depth)
	Forecast          bool    // what requests will still add to KV memory counts too, not only what is in use (shed.forecast)

	MaxWaitLow, MaxWaitNormal, MaxWaitHigh time.Duration // longest wait for room, 0 … 10 min; 0 sheds at once (shed.max_wait_low, …)
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{
		Low: 0.85, Normal: 0.95, High: 1.0, Hysteresis: 0.05, Forecast: true,
		MaxWaitLow: 10 * time.Second, MaxWaitNormal: 15 * time.Second, MaxWaitHigh: 30 * time.Second,
	}
}

// Threshold is the usage at which class p is shed.
func (c Config) Threshold(p identity.Priority) float64 {
	switch p {
	case identity.Low:
		return c.Low
	case identity.High:
		return c.High
	default:
		return c.Normal
	}
}

// Wait is how long a request of class p may wait for room.
func (c Config) Wait(p identity.Priority) time.Duration {
	switch p {
	case identity.Low:
		return c.MaxWaitLow
	case identity.High:
		return c.MaxWaitHigh
	default:
		return c.MaxWaitNormal
	}
}

// queue is how many requests may wait at a backend that one of class p goes to; 0 is any
// number.
func (c Config) queue(p identity.Priority) int {
	if p == identity.Low {
		return c.QueueDepth
	}
	return 0
}

// The reasons of a [Decision].
const (
	ReasonKV           = "kv_pressure"   // the KV usage is above the threshold
	ReasonGrowth       = "kv_growth"     // it would be, with this request, before others have ended
	ReasonBackendQueue = "backend_queue" // too many requests wait at the backends
	ReasonQueueFull    = "gateway_queue" // too many wait here
)

// Decision is why a class was shed at a pool.
type Decision struct {
	Pool  string
	Class identity.Priority

	// Usage is the least KV usage of the backends, and Threshold what it was compared
	// with; with ReasonGrowth the least that it would come to, with ReasonBackendQueue and
	// ReasonQueueFull both count waiting requests.
	Usage, Threshold float64
	Reason           string
	RetryAfter       time.Duration // whole seconds, 1 … 30
}

// String is the decision as X-Shed-Reason tells it.
func (d Decision) String() string {
	return d.Reason + ";pool=" + d.Pool + ";usage=" + short(d.Usage) + ";threshold=" + short(d.Threshold)
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

// Bounds of Retry-After, in seconds.
const (
	minRetryAfter = 1
	maxRetryAfter = 30
	retrySpread   = 5 // over how many seconds callers are spread while nothing is known

	// closedRetryAfter is what a class is told that an operator has closed.
	closedRetryAfter = 20 * time.Second
)

// RetryAfter is when to come back: whole seconds, 1 … 30. wait is how long the class is
// expected to find no room, 0 where nobody knows. r is uniform in 0 … 1 and spreads the
// callers over a quarter of it to either side, so that they do not all return in the same
// second.
func RetryAfter(wait time.Duration, r float64) time.Duration {
	if !(r >= 0 && r <= 1) {
		r = 1
	}
	seconds := r * retrySpread
	if wait > 0 {
		seconds = wait.Seconds() * (0.75 + r/2)
	}
	return time.Duration(math.Min(math.Max(math.Ceil(seconds), minRetryAfter), maxRetryAfter)) * time.Second
}

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
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// Config is the live configuration of shedding, per route. What is by class is low, normal, high.
type Config struct {
	Threshold  [identity.High + 1]float64 `setting:"shed.*" default:"0.85,0.95,1.0" min:"0" max:"1" doc:"KV usage at which priority '*' is shed. If every backend of the pool is at or above it, the request is refused within 50 ms (503); below it, and always with 1, the request waits for capacity up to 'shed.max_wait_*'. Not below that of a lower priority. 0 sheds all of the priority; of 'high' a value below 0.5 needs 'shed.allow_high'."`
	Hysteresis float64                    `setting:"shed.hysteresis" default:"0.05" min:"0" max:"1" doc:"How far KV usage must fall below a class's threshold before shedding of that class ends. Must be smaller than every threshold that is not 0."`
	QueueDepth int                        `setting:"shed.queue_depth" default:"0" min:"0" max:"100000" doc:"Requests waiting in the engine of every backend above which priority 'low' is shed; 0 turns the check off."`
	Forecast   bool                       `setting:"shed.forecast" default:"yes" choice:"yes,no" doc:"Count the KV memory that running requests will still need, not only what is in use. Without it, engines can run out of memory below every threshold, and a class with threshold 1 is admitted without a check."`

	MaxWait [identity.High + 1]time.Duration `setting:"shed.max_wait_*" default:"10s,15s,30s" min:"0s" max:"10m" doc:"Longest wait of a request of priority '*' for capacity at a pool whose KV usage is below 'shed.*', or at any if that is 1; then it is shed (503). The queue of 'high' is served first. 0s sheds at once."`
}

// The reasons of a [ShedError].
const (
	ReasonKV           = "kv_pressure"    // the KV usage is above the threshold
	ReasonGrowth       = "kv_growth"      // it would be, with this request, before others have ended
	ReasonBackendQueue = "backend_queue"  // too many requests wait at the backends
	ReasonBackendDelay = "backend_delay"  // a prompt would wait for too long at the backends
	ReasonQueueFull    = "gateway_queue"  // too many requests wait in the gateway
	ReasonProvider     = "provider_limit" // the hosted backends take no more requests for now, by their limits of rates
)

// ErrShed is every [ShedError], for errors.Is: 503.
var ErrShed = errors.New("shed")

// ShedError refuses a request because its pool sheds its class.
type ShedError struct {
	Pool  string
	Class identity.Priority

	// Usage is the lowest KV usage of the backends, and Threshold the value that it exceeds. With
	// ReasonGrowth, Usage is the lowest expected usage. With ReasonBackendQueue and ReasonQueueFull both are
	// numbers of waiting requests; with ReasonBackendDelay and ReasonProvider, seconds that it would have to wait and may.
	Usage, Threshold float64
	Reason           string
	RetryAfter       time.Duration // whole seconds, 1 … 30
}

// Error names the pool, its load and the limit of the class.
func (e *ShedError) Error() string {
	what := "KV memory in use"
	switch e.Reason {
	case ReasonGrowth:
		what = "KV memory to be used"
	case ReasonBackendQueue, ReasonQueueFull:
		what = "requests waiting"
	case ReasonProvider:
		what = "seconds until the provider takes requests"
	case ReasonBackendDelay:
		what = "seconds until a prompt is begun"
	}
	return fmt.Sprintf("pool %s is too busy for priority %s: %s %s, limit %s; retry in %s",
		e.Pool, e.Class, short(e.Usage), what, short(e.Threshold), e.RetryAfter)
}

// Unwrap makes it an [ErrShed].
func (e *ShedError) Unwrap() error { return ErrShed }

// Header is the value of X-Shed-Reason.
func (e *ShedError) Header() string {
	return e.Reason + ";pool=" + e.Pool + ";usage=" + short(e.Usage) + ";threshold=" + short(e.Threshold)
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

// Bounds of Retry-After, in seconds.
const (
	minRetryAfter = 1
	maxRetryAfter = 30
	retrySpread   = 5 // callers are spread over this time if no estimate is known

	// closedRetryAfter is the value for a class that an operator has closed.
	closedRetryAfter = 20 * time.Second
)

// retryAfter is the time until a retry makes sense: whole seconds, 1 … 30. wait is the expected time without
// capacity for the class, 0 if unknown. r is uniform in 0 … 1 and spreads callers by ± 25 %, so that they do
// not all return in the same second.
func retryAfter(wait time.Duration, r float64) time.Duration {
	seconds := r * retrySpread
	if wait > 0 {
		seconds = wait.Seconds() * (0.75 + r/2)
	}
	return time.Duration(math.Min(math.Max(math.Ceil(seconds), minRetryAfter), maxRetryAfter)) * time.Second
}

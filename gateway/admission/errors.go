package admission

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of refusals, for errors.Is. The types below carry the numbers.
var (
	ErrShed = errors.New("shed") // 503
)

// ShedError refuses a request because its pool is full; it is an [ErrShed].
type ShedError struct{ Decision Decision }

// Error names the pool, its load and the limit of the class.
func (e *ShedError) Error() string {
	d := e.Decision
	what := "KV memory in use"
	switch d.Reason {
	case ReasonGrowth:
		what = "KV memory to be used"
	case ReasonBackendQueue, ReasonQueueFull:
		what = "requests waiting"
	}
	return fmt.Sprintf("pool %s is too busy for priority %s: %s %s, limit %s; retry in %s",
		d.Pool, d.Class, short(d.Usage), what, short(d.Threshold), d.RetryAfter)
}

// Unwrap makes it an [ErrShed].
func (e *ShedError) Unwrap() error { return ErrShed }

// RetryAfter is the value of Retry-After.
func (e *ShedError) RetryAfter() time.Duration { return e.Decision.RetryAfter }

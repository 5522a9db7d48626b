package breaker

import (
	"errors"
	"fmt"
	"time"
)

// ErrOpen matches every refusal of a breaker.
var ErrOpen = errors.New("breaker open")

// OpenError tells which breaker refused and for how long it still will.
type OpenError struct {
	Pool    string
	Backend string
	Left    time.Duration // until it may be tried; an upper bound while Probing
	Probing bool          // half-open, and another request is trying it
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

package pool

import (
	"errors"
	"fmt"
)

// ErrNoBackend matches every failed pick.
var ErrNoBackend = errors.New("no backend")

// Demand is what a request asks of a backend.
type Demand struct {
	PromptTokens int      // estimated or counted
	OutputTokens int      // expected
	Exclude      []string // ids of backends that were tried already
}

// NoBackendError tells why nothing could be picked. Each backend is counted
// once, under the first of Down, Broken, Excluded and Full that applies.
type NoBackendError struct {
	Pool     string
	Total    int
	Down     int   // refused a connection
	Broken   int   // breaker open
	Excluded int   // tried already
	Full     int   // the prompt is longer than the whole KV cache
	Last     error // why the last one went down; nil when none is
}

// Error carries the numbers.
func (e *NoBackendError) Error() string {
	s := fmt.Sprintf("pool %s: no backend among %d: %d down, %d broken, %d tried already, %d with a cache smaller than the prompt",
		e.Pool, e.Total, e.Down, e.Broken, e.Excluded, e.Full)
	if e.Last != nil {
		s += ", last: " + e.Last.Error()
	}
	return s
}

// Is matches ErrNoBackend.
func (e *NoBackendError) Is(target error) bool { return target == ErrNoBackend }

// Unwrap is why the last backend went down.
func (e *NoBackendError) Unwrap() error { return e.Last }

// Pick chooses a backend and counts the request as under way there until the
// lease's Done. The error is a *NoBackendError.
func (p *Pool) Pick(d Demand) (*Lease, error) { return nil, &NoBackendError{Pool: p.opts.Name} }

package limits

import (
	"errors"
	"fmt"
	"time"
)

// ErrLimited is every refusal, for errors.Is.
var ErrLimited = errors.New("rate limited")

// Kind is which limit was met.
type Kind string

// The limits, as metrics and messages name them.
const (
	Requests    Kind = "requests"
	Tokens      Kind = "tokens"
	Concurrency Kind = "concurrency"
)

// Standing is how a tenant stands after it asked. Clients are told of it.
type Standing struct {
	Requests, Tokens Window
}

// Error is a refusal; it is an [ErrLimited].
type Error struct {
	Tenant string
	Limit  Kind
	Most   int // the limit: per minute, or at once on this replica
	Asked  int // tokens, else 1
	Wait   time.Duration
	// Hopeless says that the request can never be let in: it asks for more tokens than a
	// minute has. Wait is 0 then.
	Hopeless bool
	Standing Standing
}

// Error tells the tenant, the limit and the wait.
func (e *Error) Error() string {
	switch {
	case e.Hopeless:
		return fmt.Sprintf("tenant %s asks for %d tokens at once, more than its %d per minute", e.Tenant, e.Asked, e.Most)
	case e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s has %d requests under way, all it may have here", e.Tenant, e.Most)
	}
	return fmt.Sprintf("tenant %s has used up its %d %s per minute; the next in %s", e.Tenant, e.Most, e.Limit, e.Wait.Round(time.Millisecond))
}

// Unwrap makes it an [ErrLimited].
func (e *Error) Unwrap() error { return ErrLimited }

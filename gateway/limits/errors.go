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

// Status is how a tenant stands after it asked. Clients are told of it.
type Status struct {
	Requests, Tokens Window
}

// Error is a refusal; it is an [ErrLimited].
type Error struct {
	Tenant    string
	Limit     Kind
	Max       int // the limit: per minute, or at once on this replica
	Requested int // tokens, else 1
	Wait      time.Duration
	// NeverFits says that the request can never be let in: it asks for more tokens than a
	// minute has. Wait is 0 then.
	NeverFits bool
	Status    Status
}

// Error tells the tenant, the limit and the wait.
func (e *Error) Error() string {
	switch {
	case e.NeverFits:
		return fmt.Sprintf("tenant %s asks for %d tokens at once, more than its %d per minute", e.Tenant, e.Requested, e.Max)
	case e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s has %d requests under way, all it may have here", e.Tenant, e.Max)
	}
	return fmt.Sprintf("tenant %s has used up its %d %s per minute; the next in %s", e.Tenant, e.Max, e.Limit, e.Wait.Round(time.Millisecond))
}

// Unwrap makes it an [ErrLimited].
func (e *Error) Unwrap() error { return ErrLimited }

package limits

import (
	"errors"
	"fmt"
	"time"
)

// ErrLimited is every refusal, for errors.Is.
var ErrLimited = errors.New("rate limited")

// Kind is the limit that was reached.
type Kind string

// The limits, as metrics and messages name them.
const (
	Requests    Kind = "requests"
	Tokens      Kind = "tokens"
	Concurrency Kind = "concurrency"
)

// Status is a tenant's state after its request. Clients receive it in headers.
type Status struct {
	Requests, Tokens Window
}

// Error is a refusal; it is an [ErrLimited].
type Error struct {
	Tenant    string
	Limit     Kind
	Max       int           // the limit: per minute, or concurrent on this replica
	Requested int           // tokens, or answers at once, else 1
	Wait      time.Duration // until a place is free for this client
	Retry     bool          // whoever comes again after Wait is expected to be admitted
	// NeverFits means that the request can never be admitted: it asks for more tokens than the limit per
	// minute, or for more answers than the tenant may have at once. Wait is then 0.
	NeverFits bool
	Status    Status
}

// Error names the tenant, the limit and the wait.
func (e *Error) Error() string {
	switch {
	case e.NeverFits && e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s asks for %d answers at once, more than its %d", e.Tenant, e.Requested, e.Max)
	case e.NeverFits:
		return fmt.Sprintf("tenant %s asks for %d tokens at once, more than its %d per minute", e.Tenant, e.Requested, e.Max)
	case e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s may have %d answers under way here, and has no place for %d more", e.Tenant, e.Max, e.Requested)
	}
	return fmt.Sprintf("tenant %s has used up its %d %s per minute; the next in %s", e.Tenant, e.Max, e.Limit, e.Wait.Round(time.Millisecond))
}

// Unwrap makes it an [ErrLimited].
func (e *Error) Unwrap() error { return ErrLimited }

package breaker

import (
	"context"
	"errors"
)

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
	// name. No request can be to blame for it, so the pool's floor does not hold for it.
	Unreachable
	// Backpressure: 429, or 503 with Retry-After. Shift load; never opens.
	Backpressure
	// Neutral: says nothing about the backend, such as a client that left.
	Neutral
)

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

// Classify is the judgement used when Options names none: no error is a
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

package tiers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// ExhaustedError says that every backend that was tried failed.
type ExhaustedError struct {
	Pool  string
	Tries int
	Last  *engine.Failure

	AllBusy    bool          // every try found a busy backend
	RetryAfter time.Duration // the longest wait that one of them asked for
}

// Error carries the numbers and the last cause.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("pool %s: all %d tries failed, last: %v", e.Pool, e.Tries, e.Last)
}

// Unwrap returns the last failure.
func (e *ExhaustedError) Unwrap() error { return e.Last }

// BrokenError says that an answer broke after its first byte had gone out.
type BrokenError struct{ Cause error }

// Error names the cause.
func (e *BrokenError) Error() string { return fmt.Sprintf("broken off in mid-answer: %v", e.Cause) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// ErrUnknownModel is returned for a model that no route has.
var ErrUnknownModel = errors.New("unknown model")

// transportKind tells what an error of the transport or of a body read means.
// parent is the request's own context, call the call's.
func transportKind(parent, call context.Context, err error) engine.FailureKind {
	cause := context.Cause(call)
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(parent.Err(), context.DeadlineExceeded), errors.Is(context.Cause(parent), context.DeadlineExceeded):
		return engine.Expired
	case parent.Err() != nil:
		return engine.Gone
	case errors.Is(cause, engine.ErrFirstByte):
		return engine.Timeout
	case errors.Is(cause, engine.ErrStalled):
		return engine.Stalled
	case errors.Is(cause, pool.ErrLost):
		return engine.Silent
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.EADDRNOTAVAIL):
		return engine.Exhausted // no fault of the backend's
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dns),
		errors.As(err, &op) && op.Op == "dial":
		return engine.Refused
	case errors.Is(err, openai.ErrEventTooLong), errors.Is(err, engine.ErrBody):
		return engine.BadResponse
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return engine.Cut
	}
	return engine.Reset
}

// statusKind tells what a status other than 200 means.
func statusKind(status int) engine.FailureKind {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return engine.Backpressure
	case status >= 500:
		return engine.ServerError
	case status >= 400:
		return engine.Rejected
	}
	return engine.BadResponse
}

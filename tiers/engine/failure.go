package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/openai"
)

// FailureKind names what went wrong with one call to one backend.
type FailureKind string

// The kinds, as metrics and error codes name them.
const (
	Refused      FailureKind = "upstream_refused"      // no connection
	Timeout      FailureKind = "upstream_timeout"      // no first byte in time
	Silent       FailureKind = "upstream_silent"       // its backend seems to hang: the call moves to another
	Stalled      FailureKind = "upstream_stalled"      // silence inside a stream
	Reset        FailureKind = "upstream_reset"        // the connection broke
	Cut          FailureKind = "upstream_cut"          // the stream ended without its end
	ServerError  FailureKind = "upstream_error"        // 5xx, or an error event
	Backpressure FailureKind = "upstream_busy"         // 429 or 503
	Rejected     FailureKind = "upstream_rejected"     // another 4xx: the request is at fault
	WrongModel   FailureKind = "upstream_wrong_model"  // 404, 405, 410, 421 or 501: the backend does not serve the pool's model, or not its API
	Unauthorized FailureKind = "upstream_auth"         // 401, 403 or a refused TLS connection: the pool's settings are at fault
	BadResponse  FailureKind = "bad_upstream_response" // not what the API promises
	TooLarge     FailureKind = "answer_too_large"      // above limits.response_bytes, for which nobody is at fault
	Aborted      FailureKind = "upstream_aborted"      // finish_reason "abort"
	ClientGone   FailureKind = "client_gone"           // the client left
	Expired      FailureKind = "deadline"              // the request's whole deadline passed
	Exhausted    FailureKind = "gateway_exhausted"     // this gateway ran out of files, ports or memory
)

// Failure is why one call to a backend failed.
type Failure struct {
	Kind             FailureKind
	Pool             string
	Backend          string
	Status           int           // that the failure is about: of the response, or as an error event names it; 0 is none
	Responded        int           // status of the response, 200 too; 0 when there was none
	Path             string        // that a WrongModel was about
	Fault            *openai.Fault // what the backend said, nil when nothing
	RetryAfter       time.Duration // what the backend asked for
	Err              error
	ReusedConnection bool // a kept connection broke before a byte came
	StaleConnection  bool // it did so at once: it may have been closed while it was idle
}

// Error names the backend and the cause; it is for operators. What the backend wrote is not in it: that may repeat the prompt.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s: backend %s: %s%s", f.Pool, f.Backend, f.Kind, f.Reply())
	if f.Err != nil {
		fmt.Fprintf(&b, ": %v", f.Err)
	}
	return b.String()
}

// Reply returns the status and the code that the backend answered, as ": status 404: model_not_found"; "" if none.
func (f *Failure) Reply() (said string) {
	if f.Status != 0 {
		said = fmt.Sprintf(": status %d", f.Status)
	}
	if f.Fault != nil && f.Fault.Code != "" {
		said += ": " + f.Fault.Code
	}
	return said
}

// AboveLimit is the cause of a [TooLarge]: the answer has more bytes than the limit.
func AboveLimit(limit int64) error {
	return fmt.Errorf("an answer above limits.response_bytes (%d)", limit)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retryable reports whether another backend might do better.
func (f *Failure) Retryable() bool {
	switch f.Kind {
	case Rejected, TooLarge, ClientGone, Expired:
		return false
	}
	return true
}

// IsBackendLost reports whether the connection was refused or broke, or the backend hangs or ends its work: the
// backend, not its work, is at fault.
func (f *Failure) IsBackendLost() bool {
	return f.Kind == Refused || f.Kind == Reset || f.Kind == Cut || f.Kind == Silent || f.Kind == Aborted
}

// MayHaveWorked reports whether the backend may have begun to answer before the call failed. Nobody has worked behind a
// connection that had been closed while it was idle.
func (f *Failure) MayHaveWorked() bool {
	switch f.Kind {
	case Refused, Backpressure, Rejected, WrongModel, Unauthorized, ServerError, Exhausted:
		return false
	}
	return !f.StaleConnection
}

// IsRetryableHere reports whether the same backend may be asked once more where no other is left.
func (f *Failure) IsRetryableHere() bool { return f.ReusedConnection || f.Kind == Silent }

// Class is what a call's outcome says about the health of its backend.
type Class uint8

// The four classes. Only faults count against a backend.
const (
	ClassSuccess Class = iota
	ClassFault
	ClassBusy    // shift load, do not blame
	ClassNeutral // says nothing
)

// Classify maps the outcome of a call to its class: nil and a rejected request
// are signs of life, a full backend is busy, a client that left says nothing. Nor does a
// backend that is taken to hang: the pool knows, and finds out sooner that it is well again.
func Classify(err error) Class {
	if err == nil {
		return ClassSuccess
	}
	var f *Failure
	if !errors.As(err, &f) || f.StaleConnection {
		return ClassNeutral
	}
	switch f.Kind {
	case Rejected:
		return ClassSuccess
	case Backpressure:
		return ClassBusy
	case TooLarge, ClientGone, Expired, Exhausted, Silent:
		return ClassNeutral
	}
	return ClassFault
}

// ErrFirstByte and ErrStalled are the causes with which a call's own timers
// cancel it.
var (
	ErrFirstByte = errors.New("no first byte in time")
	ErrStalled   = errors.New("no next chunk in time")
)

// ErrBody marks a body that is not what its headers promise.
var ErrBody = errors.New("unusable response body")

package upstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

const (
	maxErrorBody = 64 << 10         // bytes read of an error response
	maxHint      = 60 * time.Second // of a Retry-After
)

// transportKind returns the kind of an error of the transport, of reading a body, or of its content. parent is the
// caller's context.
func transportKind(parent context.Context, err error) engine.FailureKind {
	left := context.Cause(parent)
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(left, pool.ErrLost):
		return engine.Silent
	case errors.Is(parent.Err(), context.DeadlineExceeded), errors.Is(left, context.DeadlineExceeded):
		return engine.Expired
	case left != nil:
		return engine.ClientGone
	case credentials.RefusalOf(err) != nil:
		return engine.Unauthorized
	case errors.Is(err, engine.ErrFirstByte):
		return engine.Timeout
	case errors.Is(err, engine.ErrStalled):
		return engine.Stalled
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.EADDRNOTAVAIL):
		return engine.Exhausted // not the backend's fault
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

// statusKind returns the kind of a status other than 200. The client chooses neither the model's name nor the path. So a
// server that does not have them, or is not ready for any request, is at fault itself, and another one may do better.
func statusKind(status int) engine.FailureKind {
	switch {
	case dialect.IsNotServed(status):
		return engine.WrongModel
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return engine.Backpressure
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return engine.ServerError
	case credentials.RefusedBy(status) != nil:
		return engine.Unauthorized
	case status >= 500:
		return engine.ServerError
	case status >= 400:
		return engine.Rejected
	}
	return engine.BadResponse
}

// refusal returns the failure of a response with a status other than 200. What an engine says about the gateway's
// credentials is not kept, because it may repeat a key.
func refusal(resp *response) *engine.Failure {
	if refused := credentials.RefusedBy(resp.StatusCode); refused != nil {
		return &engine.Failure{Kind: engine.Unauthorized, Status: resp.StatusCode, Err: refused}
	}
	body, _ := io.ReadAll(io.LimitReader(resp, maxErrorBody)) // a partial body is enough
	f := &engine.Failure{Kind: statusKind(resp.StatusCode), Status: resp.StatusCode, Fault: openai.ParseFault(openai.TrimByteOrderMark(body))}
	if f.Fault.TooLong {
		f.Kind, f.Status = engine.Rejected, f.Fault.Status // whatever the status: no other backend does better
	}
	f.RetryAfter = retryAfter(resp.Header)
	return f
}

// retryAfter returns what Retry-After says, in whole seconds; 0 is nothing.
func retryAfter(h http.Header) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return min(time.Duration(s)*time.Second, maxHint)
	}
	return 0
}

// defaultPause is the pause that a 429 asks for that names none.
const defaultPause = time.Second

// pause returns for how long a provider wants no further request: by Retry-After of a 429, or where nothing is left of a
// limit, until the next request has room. The headers of a limit are OpenAI's, which tell the time until all of it is free
// again.
func pause(status int, h http.Header) (wait time.Duration) {
	for _, limit := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+limit) != "0" {
			continue
		}
		total, err := strconv.Atoi(h.Get("X-Ratelimit-Limit-" + limit))
		reset, wrong := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + limit))
		if err == nil && wrong == nil && total > 0 {
			wait = max(wait, min(reset, maxHint)/time.Duration(total))
		}
	}
	if status == http.StatusTooManyRequests {
		wait = max(wait, cmp.Or(retryAfter(h), defaultPause))
	}
	return wait
}

// eventFailure returns the failure that an error event's code names.
func eventFailure(f *openai.Fault) *engine.Failure {
	kind := engine.ServerError
	if f.Status >= 400 {
		kind = statusKind(f.Status)
	}
	if kind == engine.Unauthorized {
		return &engine.Failure{Kind: kind, Status: f.Status, Err: credentials.RefusedBy(f.Status)}
	}
	return &engine.Failure{Kind: kind, Status: f.Status, Fault: f}
}

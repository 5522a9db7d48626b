package http1

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed is returned for a response that is not HTTP/1.1 as it must be.
	ErrMalformed = errors.New("malformed HTTP response")
	// ErrRequest is returned for a request that cannot be sent: its base URL, path or header is not valid.
	ErrRequest = errors.New("invalid HTTP request")
	// ErrTimeout is returned if a wait took too long: [Request.Wait], [Response.SetWait].
	ErrTimeout = errors.New("no bytes of an HTTP response in time")
	// ErrClosed is returned by reads of a closed response, and by a closed [Transport].
	ErrClosed = errors.New("closed")
)

// malformed returns an error that matches [ErrMalformed].
func malformed(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, a...)...)
}

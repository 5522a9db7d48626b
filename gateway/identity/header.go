package identity

import "net/http"

// Kind is what is wrong with a request's identity.
type Kind int

// The kinds, each with the status that the gateway answers.
const (
	BadHeader    Kind = iota // 400 bad_header
	Unauthorized             // 401
	Forbidden                // 403
)

// Error tells why a request has no identity. It never holds a client's value.
type Error struct {
	Kind   Kind
	Header string
	Reason string
}

// Error is the header and the reason, safe to show to the client.
func (e *Error) Error() string { return e.Header + ": " + e.Reason }

// Header returns the one value of header name, "" when it is absent.
func Header(h http.Header, name string, max int) (string, error) {
	return h.Get(name), nil
}

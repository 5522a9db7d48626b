package identity

import (
	"fmt"
	"net/http"
	"net/textproto"

	"github.com/foregate/foregate/internal/words"
)

// The headers about the caller, as clients write them.
const (
	HeaderTenant   = "X-Tenant-ID"
	HeaderPriority = "X-Priority"
	HeaderRAGHash  = "X-RAG-Hash"

	HeaderApplication = "X-Application"

	headerAuthorization = "Authorization"
	headerAPIKey        = "X-Api-Key"
)

// Maximum lengths of values.
const (
	maxIdentity = 64
	maxRAGHash  = 128
	maxKey      = 512
)

// Kind says what is wrong with a request's identity, as an error code.
type Kind string

// The kinds, with their HTTP statuses.
const (
	BadHeader    Kind = "bad_header"   // 400
	Unauthorized Kind = "unauthorized" // 401
	Forbidden    Kind = "forbidden"    // 403
)

// Error says why a request has no identity. It never contains a client's value, so it may be shown, logged
// and counted.
type Error struct {
	Kind   Kind
	Header string // the header at fault, "" when it is none
	Reason string
}

// Error is the header and the reason.
func (e *Error) Error() string {
	if e.Header == "" {
		return e.Reason
	}
	return e.Header + ": " + e.Reason
}

// Header returns the value of header name, "" if it is absent. The header must occur once and have 1 to
// longest of the characters A-Z a-z 0-9 . _ : -, otherwise the error is an [*Error] of kind BadHeader. With
// two values a proxy may have checked the other one, and Go joins folded lines with a space. Names with
// underscores are different names and are never read.
func Header(h http.Header, name string, longest int) (string, error) {
	values := h[textproto.CanonicalMIMEHeaderKey(name)]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", &Error{Kind: BadHeader, Header: name, Reason: "is given more than once"}
	case !valid(values[0], longest):
		return "", &Error{Kind: BadHeader, Header: name, Reason: fmt.Sprintf("want 1–%d of A-Z a-z 0-9 . _ : -", longest)}
	}
	return values[0], nil
}

// valid reports whether s is 1 to longest characters without a special meaning.
func valid(s string, longest int) bool { return words.IsName(s, longest, "._:-") }

package identity

import (
	"fmt"
	"net/http"
	"net/textproto"
)

// The headers about the caller, as clients write them.
const (
	HeaderTenant   = "X-Tenant-ID"
	HeaderPriority = "X-Priority"
	HeaderRAGHash  = "X-RAG-Hash"

	headerAuthorization = "Authorization"
	headerAPIKey        = "X-Api-Key"
)

// Maximum lengths of values.
const (
	maxIdentity = 64
	maxRAGHash  = 128
	maxKey      = 512
)

// Kind says what is wrong with a request's identity.
type Kind int

// The kinds, with their HTTP statuses.
const (
	BadHeader    Kind = iota // 400 bad_header
	Unauthorized             // 401
	Forbidden                // 403
)

// String is the kind as an error code.
func (k Kind) String() string {
	switch k {
	case BadHeader:
		return "bad_header"
	case Unauthorized:
		return "unauthorized"
	case Forbidden:
		return "forbidden"
	}
	return "unknown"
}

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

// canonical are the canonical header names, because computing them allocates.
var canonical = map[string]string{
	HeaderTenant:   textproto.CanonicalMIMEHeaderKey(HeaderTenant),
	HeaderPriority: textproto.CanonicalMIMEHeaderKey(HeaderPriority),
	HeaderRAGHash:  textproto.CanonicalMIMEHeaderKey(HeaderRAGHash),
}

// Header returns the value of header name, "" if it is absent. The header must occur once and have 1 to
// longest of the characters A-Z a-z 0-9 . _ : -, otherwise the error is an [*Error] of kind BadHeader. With
// two values a proxy may have checked the other one, and Go joins folded lines with a space. Names with
// underscores are different names and are never read.
func Header(h http.Header, name string, longest int) (string, error) {
	key, ours := canonical[name]
	if !ours {
		key = textproto.CanonicalMIMEHeaderKey(name)
	}
	values := h[key]
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

// valid reports whether s is 1 to longest harmless characters.
func valid(s string, longest int) bool {
	if len(s) == 0 || len(s) > longest {
		return false
	}
	for i := range len(s) {
		if !harmless(rune(s[i])) {
			return false
		}
	}
	return true
}

// harmless reports whether c has no special meaning in a label, a log line, a header or a Redis key.
func harmless(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == ':' || c == '-'
}

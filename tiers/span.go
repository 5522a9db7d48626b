package tiers

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"net/http"
)

// The headers of the W3C's trace context. A traceparent of version 00 is
// 00-<trace, 32 hex>-<parent, 16 hex>-<flags, 2 hex>.
const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"

	traceparentSize = 55
	parentAt        = 36
)

// span makes a call a span of its own in the request's trace: its backend is told an id, which the
// receipt keeps, in place of the request's. A call that the receipt has no room for stays the
// request's own.
func (x *exchange) span(h http.Header) {
	t, told := x.tried(), h[traceparent]
	if t == nil || len(told) != 1 || len(told[0]) != traceparentSize {
		return
	}
	binary.BigEndian.PutUint64(t.Span[:], max(rand.Uint64(), 1)) // zero is no id
	own := []byte(told[0])
	hex.Encode(own[parentAt:], t.Span[:])
	h[traceparent] = []string{string(own)}
}

// untraced is what is told upstream of work that no trace shows, such as audits: it would hang in
// the request's trace long after its end, below spans that nobody has sent.
func untraced(h http.Header) http.Header {
	h = maps.Clone(h)
	delete(h, traceparent)
	delete(h, tracestate)
	return h
}

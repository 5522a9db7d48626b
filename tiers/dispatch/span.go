package dispatch

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
// record keeps, in place of the request's. A call that the record has no place for stays the request's
// own.
func span(h http.Header, t *Try) http.Header {
	parents := h[traceparent]
	if len(parents) != 1 || len(parents[0]) != traceparentSize {
		return h
	}
	binary.BigEndian.PutUint64(t.Span[:], max(rand.Uint64(), 1)) // zero is no id
	own := []byte(parents[0])
	hex.Encode(own[parentAt:parentAt+16], t.Span[:])
	h = maps.Clone(h)
	h[traceparent] = []string{string(own)}
	return h
}

// Untraced is what is told upstream of work that no trace shows, such as audits: it would hang in
// the request's trace long after its end, below spans that nobody has sent.
func (i Identity) Untraced() Identity {
	if !i.Spans {
		return i
	}
	i.Header = maps.Clone(i.Header)
	delete(i.Header, traceparent)
	delete(i.Header, tracestate)
	i.Spans = false
	return i
}

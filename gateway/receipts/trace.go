package receipts

import "encoding/hex"

// Trace is a request's position in a trace, as in the W3C's trace context.
type Trace struct {
	ID     [16]byte
	Span   [8]byte // the request's own; each upstream call is a child of it
	Parent [8]byte // of the request's sender; zero: none
	Flags  byte    // the lowest bit is set if the trace is recorded
	State  string  // tracestate, "" is none
}

// Recorded reports whether the request and its upstream calls become spans. A nil trace is not recorded.
func (t *Trace) Recorded() bool { return t != nil && t.Flags&1 != 0 }

// Record has the trace recorded, whatever was decided before.
func (t *Trace) Record() { t.Flags |= 1 }

// Parentage is the header traceparent of an upstream call.
func (t *Trace) Parentage() string {
	b := append(make([]byte, 0, 55), "00-"...)
	b = append(hex.AppendEncode(b, t.ID[:]), '-')
	b = append(hex.AppendEncode(b, t.Span[:]), '-')
	return string(hex.AppendEncode(b, []byte{t.Flags}))
}

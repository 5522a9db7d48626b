package gateway

import "time"

// Timeouts bound the waits for a client. They are live settings.
type Timeouts struct {
	Body time.Duration // for the whole body (timeout.body)
	// Write bounds one write to a client; at least nine tenths of it are guaranteed. A client that reads
	// nothing is then disconnected, and its generation ends (timeout.write).
	Write time.Duration
	// EarlyHeaders sends the headers of a stream with its first comment (stream.early_headers). They then do not tell the tier,
	// and an error is an event.
	EarlyHeaders bool
}

// DefaultTimeouts returns the default values.
func DefaultTimeouts() Timeouts {
	return Timeouts{Body: 60 * time.Second, Write: 10 * time.Second}
}

// timeouts returns those of a route, "" before it is known. Zero and negative values mean the default.
func (g *Gateway) timeouts(route string) Timeouts {
	d := DefaultTimeouts()
	if g.opts.Timeouts == nil {
		return d
	}
	t := g.opts.Timeouts(route)
	for _, f := range []struct{ at, or *time.Duration }{{&t.Body, &d.Body}, {&t.Write, &d.Write}} {
		if *f.at <= 0 {
			*f.at = *f.or
		}
	}
	return t
}

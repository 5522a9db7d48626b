package gateway

import "time"

// Timeouts bound what is waited for a client, live.
type Timeouts struct {
	BodyStart time.Duration // for a body to start; from then on it must keep up minBodyRate (timeout.body_start)
	Body      time.Duration // for the whole body (timeout.body)
	// Write is how long a client may take to accept one write, nine tenths of it at the
	// least. A client that reads nothing is cut then, and its generation with it
	// (timeout.write).
	Write time.Duration
}

// DefaultTimeouts holds the values that are used where none are set.
func DefaultTimeouts() Timeouts {
	return Timeouts{BodyStart: 5 * time.Second, Body: 60 * time.Second, Write: 10 * time.Second}
}

// timeouts are those in force for a route, "" before it is known. What is zero or
// negative is the default.
func (g *Gateway) timeouts(route string) Timeouts {
	d := DefaultTimeouts()
	if g.opts.Timeouts == nil {
		return d
	}
	t := g.opts.Timeouts(route)
	for _, f := range []struct{ at, or *time.Duration }{{&t.BodyStart, &d.BodyStart}, {&t.Body, &d.Body}, {&t.Write, &d.Write}} {
		if *f.at <= 0 {
			*f.at = *f.or
		}
	}
	return t
}

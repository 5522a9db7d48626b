// Package upstream makes attempts at engines over HTTP, one exchange each. It encodes a call for the engine (encode.go),
// sends it, enforces its deadlines, reads the answer (events.go, whole.go, raw.go) and reports failures (failure.go).
//
// Data from engines is untrusted: it is bounded, checked before use, and token counts are limited to what is possible
// (usagebound.go). A client has no state besides its connections.
package upstream

import (
	"context"

	"github.com/foregate/foregate/tiers/engine"
)

// Client makes attempts. It is safe for concurrent use.
type Client struct{ options Options }

var _ engine.Upstream = (*Client)(nil)

// New returns a Client.
func New(o Options) *Client { return &Client{o.complete()} }

// Open implements [engine.Upstream].
func (c *Client) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	s, x := c.stream(a)
	if f := x.open(ctx, s); f != nil {
		return nil, f
	}
	return s, nil
}

// stream prepares the exchange of an attempt.
func (c *Client) stream(a *engine.Attempt) (answer, *httpExchange) {
	x := httpExchange{options: &c.options, attempt: a}
	switch call := a.Call.(type) {
	case *engine.Forward:
		s := &raw{httpExchange: x, into: call.Into}
		return s, &s.httpExchange
	case *engine.Draft, *engine.ContinueIDs:
		s := &events{httpExchange: x}
		s.parser.Judged = true
		return s, &s.httpExchange
	case *engine.ContinueText:
		s := &events{httpExchange: x}
		return s, &s.httpExchange
	case *engine.Relay:
		if call.Request.Stream {
			s := &events{httpExchange: x}
			s.finishes.Want = call.Request.Choices()
			return s, &s.httpExchange
		}
	}
	s := &whole{httpExchange: x}
	return s, &s.httpExchange
}

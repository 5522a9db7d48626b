// Package upstream makes attempts at engines over HTTP, one exchange each. It encodes a call for the engine (encode.go),
// sends it, enforces its deadlines, reads the answer (events.go, whole.go, raw.go) and reports failures (failure.go).
//
// Data from engines is untrusted: it is bounded, checked before use, and token counts are limited to what is possible
// (usagebound.go). A client has no state besides its connections.
package upstream

import (
	"context"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/upstream/http1"
)

// Client makes attempts. It is safe for concurrent use.
type Client struct {
	options Options
	hot     exchanger               // for attempts
	cold    *credentials.Transports // for everything else
	close   func()
}

var _ engine.Upstream = (*Client)(nil)

var _ exchanger = (*http1.Transport)(nil)

// New returns a Client.
func New(o Options) *Client {
	o = o.complete()
	c := &Client{options: o, cold: o.transports()}
	c.hot, c.close = netHTTP{c.cold}, func() {}
	if !o.NetHTTP {
		d := dialer{o.Dial}
		t := http1.New(http1.Options{Dial: d.dial, DialTLS: d.dialTLS})
		c.hot, c.close = t, t.Close
	}
	return c
}

// Run closes the connections when ctx ends: see [Client.Close].
func (c *Client) Run(ctx context.Context) error {
	<-ctx.Done()
	c.Close()
	return nil
}

// Close closes the connections that are idle, and each other one when its attempt ends. Later attempts fail.
func (c *Client) Close() {
	c.close()
	c.cold.CloseIdleConnections()
}

// Open implements [engine.Upstream].
func (c *Client) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	if prompt, is := tokenizesInTwo(a); is {
		render := applyTemplate{prompt: prompt}
		first := *a
		first.Call = &render
		rendered, err := c.openOne(ctx, &first)
		if err != nil {
			return nil, err
		}
		rendered.Close()
		second := *a
		second.Call, second.Sent = &tokenizeRendered{text: render.into, into: prompt.Into}, nil
		a = &second
	}
	return c.openOne(ctx, a)
}

// openOne makes one exchange.
func (c *Client) openOne(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	s, x := c.stream(a)
	if f := x.open(ctx, s); f != nil {
		return nil, f
	}
	return s, nil
}

// stream prepares the exchange of an attempt.
func (c *Client) stream(a *engine.Attempt) (answer, *httpExchange) {
	x := httpExchange{options: &c.options, client: c.hot, attempt: a}
	switch call := a.Call.(type) {
	case *engine.Forward:
		s := &raw{httpExchange: x, into: call.Into}
		return s, &s.httpExchange
	case *engine.Draft, *engine.ContinueIDs:
		s := &events{httpExchange: x, parser: openai.BorrowChunkParser(true)}
		return s, &s.httpExchange
	case *engine.ContinueText:
		s := &events{httpExchange: x, parser: openai.BorrowChunkParser(false)}
		return s, &s.httpExchange
	case *engine.Relay:
		if call.Request.Stream {
			s := &events{httpExchange: x, parser: openai.BorrowChunkParser(false)}
			s.finishes.Want = call.Request.Choices()
			return s, &s.httpExchange
		}
	}
	s := &whole{httpExchange: x}
	return s, &s.httpExchange
}

// Package upstream makes attempts at engines over HTTP: one exchange each. It writes a call as the
// engine reads it (encode.go), sends it, holds its deadlines, reads the answer (events.go, whole.go,
// raw.go) and says why there is none (failure.go).
//
// What an engine sends is foreign: it is bounded, checked before it is used, and never trusted to say
// what it cost (bound.go). A client has no state of its own beside its connections.
package upstream

import (
	"context"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

// Options make a Client.
type Options struct {
	Transport http.RoundTripper // nil is NewTransport, with Dial
	Dial      func() Dial       // live, for the default Transport; nil is DefaultDial
	MaxBody   int64             // bytes of an answer in one piece; 0 is 16 MiB
	Now       func() time.Time  // nil is time.Now
}

// Client makes attempts. It is safe for concurrent use.
type Client struct {
	transport http.RoundTripper
	maxBody   int64
	now       func() time.Time
}

var _ engine.Upstream = (*Client)(nil)

const defaultMaxBody = 16 << 20

// New makes a client.
func New(o Options) *Client {
	c := &Client{transport: o.Transport, maxBody: o.MaxBody, now: o.Now}
	if c.transport == nil {
		c.transport = newTransport(dialer{o.Dial})
	}
	if c.maxBody == 0 {
		c.maxBody = defaultMaxBody
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Open implements [engine.Upstream].
func (c *Client) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	s, x := c.stream(a)
	if f := x.open(ctx, s); f != nil {
		return nil, f
	}
	return s, nil
}

// answer is an exchange whose answer is read in one of three ways.
type answer interface {
	engine.Stream
	// begin reads an answer with status 200 up to its first byte, or all of one in one piece.
	begin() error
}

// stream prepares the exchange of an attempt.
func (c *Client) stream(a *engine.Attempt) (answer, *exchange) {
	x := exchange{client: c, attempt: a}
	switch call := a.Call.(type) {
	case *engine.Pass:
		s := &raw{exchange: x, into: call.Into}
		return s, &s.exchange
	case *engine.Draft, *engine.ContinueIDs:
		s := &events{exchange: x}
		s.parser.Judged = true
		return s, &s.exchange
	case *engine.ContinueText:
		s := &events{exchange: x}
		return s, &s.exchange
	case *engine.Relay:
		if call.Request.Stream {
			s := &events{exchange: x}
			s.finishes.Want = call.Request.Choices()
			return s, &s.exchange
		}
	}
	s := &whole{exchange: x}
	return s, &s.exchange
}

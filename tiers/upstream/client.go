// Package upstream makes attempts at engines over HTTP, one exchange each. It encodes a call for the engine (encode.go),
// sends it, enforces its deadlines, reads the answer (events.go, whole.go, raw.go) and reports failures (failure.go).
//
// Data from engines is untrusted: it is bounded, checked before use, and token counts are limited to what is possible
// (exchange.go). A client has no state besides its connections.
package upstream

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// Client makes attempts. It is safe for concurrent use.
type Client struct {
	options    Options
	transports *credentials.Transports
}

var _ engine.Upstream = (*Client)(nil)

// New returns a Client.
func New(o Options) *Client {
	o = o.complete()
	return &Client{options: o, transports: credentials.NewTransports(func(config *tls.Config) http.RoundTripper {
		if o.Transport != nil {
			return o.Transport
		}
		return newTransport(dialer{o.Connect}, config)
	})}
}

// Run closes the connections when ctx ends: see [Client.Close].
func (c *Client) Run(ctx context.Context) error {
	<-ctx.Done()
	c.Close()
	return nil
}

// Close closes the connections that are idle. Those of running attempts are closed some seconds after their ends.
func (c *Client) Close() { c.transports.CloseIdleConnections() }

// Open implements [engine.Upstream].
func (c *Client) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	d := dialect.Of(a.Engine)
	switch call := a.Call.(type) {
	case *engine.TokenizePrompt:
		if call.Request.Kind == openai.Chat && d.Tokenize == dialect.TokenizeLlamaCpp {
			return c.tokenizeChat(ctx, a, membersOf(call.Request, "messages", "tools", "tool_choice", openai.Kwargs), call.Into)
		}
	case *engine.ContinueText:
		if call.Request.Kind == openai.Chat && len(call.Text) > 0 && d.ContinueBy == dialect.ContinueByIDs {
			return c.continueByIDs(ctx, a, call)
		}
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
	x := httpExchange{options: &c.options, transports: c.transports, attempt: a}
	switch call := a.Call.(type) {
	case *engine.Forward:
		s := &raw{httpExchange: x, into: call.Into}
		return s, &s.httpExchange
	case *engine.Draft, *engine.ContinueIDs:
		s := &events{httpExchange: x, parser: openai.ChunkParser{Judged: true, LogprobIDs: x.tellsIDsInLogprobs()}}
		return s, &s.httpExchange
	case *engine.ContinueText:
		s := &events{httpExchange: x}
		if call.Found == dialect.Repeats {
			s.repeated = call.Text
		}
		return s, &s.httpExchange
	case *continueTokens:
		s := &events{httpExchange: x}
		return s, &s.httpExchange
	case *engine.Relay:
		if call.Request.Stream {
			s := &events{httpExchange: x}
			s.finishes.Want = call.Request.Choices()
			return s, &s.httpExchange
		}
	}
	if x.merges() {
		s := &mergedStream{events: events{httpExchange: x}}
		if call, is := a.Call.(*engine.Relay); is {
			s.finishes.Want = call.Request.Choices()
		}
		return s, &s.httpExchange
	}
	s := &whole{httpExchange: x}
	return s, &s.httpExchange
}

const defaultMaxBody = 16 << 20 // bytes

// Options configure a Client.
type Options struct {
	Transport http.RoundTripper // for everything, whatever the TLS; nil makes one for each

	// Connect bounds the time until a TCP connection of the default transports is established, live; nil is ConnectTimeout.
	Connect func() time.Duration

	MaxBody int64            // of an answer that is not a stream; 0 is 16 MiB
	Now     func() time.Time // nil is time.Now
}

// complete sets the defaults.
func (o Options) complete() Options {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Package upstream makes attempts at engines over HTTP, one exchange each. It encodes a call for the engine (encode.go),
// sends it, enforces its deadlines, reads the answer (events.go) and reports failures.
//
// Data from engines is untrusted: it is bounded, checked before use, and token counts are limited to what is possible
// (exchange.go). A client has no state besides its connections.
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
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

const (
	// ConnectTimeout is the default bound of the time until a TCP connection is established.
	ConnectTimeout = time.Second
	handshake      = 10 * time.Second // of TLS, at most
)

// dialer opens connections to backends.
type dialer struct {
	connect func() time.Duration // bound of the time until a TCP connection is established, read for each; nil: ConnectTimeout
}

// bound returns the bound in force. Zero and negative values mean the default.
func (d dialer) bound() time.Duration {
	if d.connect != nil && d.connect() > 0 {
		return d.connect()
	}
	return ConnectTimeout
}

// dial opens a connection.
func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.bound(), KeepAlive: 30 * time.Second}
	return nd.DialContext(ctx, network, addr)
}

// newTransport is a transport to engines, for one TLS identity of the pools: idle connections are kept for less than the
// 5 s after which vLLM closes them, nothing is decompressed, no proxy is used and no redirect is followed. It speaks
// HTTP/1.1, over TLS as well: the end of an attempt closes its connection, which tells any engine to stop. The engine's certificate
// is always verified.
func newTransport(d dialer, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            d.dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    handshake,
		MaxIdleConnsPerHost:    maxIdle,
		MaxConnsPerHost:        maxConns,
		IdleConnTimeout:        4 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         bufferSize,
		WriteBufferSize:        bufferSize,
	}
}

// Bounds of a transport, for each backend.
const (
	maxIdle  = 512  // connections that are kept
	maxConns = 4096 // open connections; further requests wait for one

	// bufferSize is that of a connection's two buffers, in bytes, which it holds while its engine is silent, too. An event of
	// a token and most heads of requests fit into one; what is larger goes past them.
	bufferSize = 1 << 10
)

const (
	maxErrorBody = 64 << 10         // bytes read of an error response
	maxHint      = 60 * time.Second // of a Retry-After
)

// transportKind returns the kind of an error of the transport, of reading a body, or of its content. parent is the
// caller's context.
func transportKind(parent context.Context, err error) engine.FailureKind {
	left := context.Cause(parent)
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(left, pool.ErrLost):
		return engine.Silent
	case errors.Is(parent.Err(), context.DeadlineExceeded), errors.Is(left, context.DeadlineExceeded):
		return engine.Expired
	case left != nil:
		return engine.ClientGone
	case credentials.RefusalOf(err) != nil:
		return engine.Unauthorized
	case errors.Is(err, engine.ErrFirstByte):
		return engine.Timeout
	case errors.Is(err, engine.ErrStalled):
		return engine.Stalled
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.EADDRNOTAVAIL):
		return engine.Exhausted // not the backend's fault
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dns),
		errors.As(err, &op) && op.Op == "dial":
		return engine.Refused
	case errors.Is(err, openai.ErrEventTooLong), errors.Is(err, engine.ErrBody):
		return engine.BadResponse
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return engine.Cut
	}
	return engine.Reset
}

// statusKind returns the kind of a status other than 200. The client chooses neither the model's name nor the path. So a
// server that does not have them, or is not ready for any request, is at fault itself, and another one may do better.
func statusKind(status int) engine.FailureKind {
	switch {
	case dialect.IsNotServed(status):
		return engine.WrongModel
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return engine.Backpressure
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return engine.ServerError
	case credentials.RefusedBy(status) != nil:
		return engine.Unauthorized
	case status >= 500:
		return engine.ServerError
	case status >= 400:
		return engine.Rejected
	}
	return engine.BadResponse
}

// refusal returns the failure of a response with a status other than 200. What an engine says about the gateway's
// credentials is not kept, because it may repeat a key.
func refusal(resp *response) *engine.Failure {
	if refused := credentials.RefusedBy(resp.StatusCode); refused != nil {
		return &engine.Failure{Kind: engine.Unauthorized, Status: resp.StatusCode, Err: refused}
	}
	body, _ := io.ReadAll(io.LimitReader(resp, maxErrorBody)) // a partial body is enough
	f := &engine.Failure{Kind: statusKind(resp.StatusCode), Status: resp.StatusCode, Fault: openai.ParseFault(openai.TrimByteOrderMark(body))}
	if f.Fault.TooLong {
		f.Kind, f.Status = engine.Rejected, f.Fault.Status // whatever the status: no other backend does better
	}
	f.RetryAfter = retryAfter(resp.Header)
	return f
}

// retryAfter returns what Retry-After says, in whole seconds; 0 is nothing.
func retryAfter(h http.Header) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return min(time.Duration(s)*time.Second, maxHint)
	}
	return 0
}

// defaultPause is the pause that a 429 asks for that names none.
const defaultPause = time.Second

// pause returns for how long a provider wants no further request: by Retry-After of a 429, or where nothing is left of a
// limit, until the next request has room. The headers of a limit are OpenAI's, which tell the time until all of it is free
// again.
func pause(status int, h http.Header) (wait time.Duration) {
	for _, limit := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+limit) != "0" {
			continue
		}
		total, err := strconv.Atoi(h.Get("X-Ratelimit-Limit-" + limit))
		reset, wrong := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + limit))
		if err == nil && wrong == nil && total > 0 {
			wait = max(wait, min(reset, maxHint)/time.Duration(total))
		}
	}
	if status == http.StatusTooManyRequests {
		wait = max(wait, cmp.Or(retryAfter(h), defaultPause))
	}
	return wait
}

// eventFailure returns the failure that an error event's code names.
func eventFailure(f *openai.Fault) *engine.Failure {
	kind := engine.ServerError
	if f.Status >= 400 {
		kind = statusKind(f.Status)
	}
	if kind == engine.Unauthorized {
		return &engine.Failure{Kind: kind, Status: f.Status, Err: credentials.RefusedBy(f.Status)}
	}
	return &engine.Failure{Kind: kind, Status: f.Status, Fault: f}
}

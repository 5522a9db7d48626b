package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

const (
	drainWait   = 50 * time.Millisecond // for the end of a body after its terminator
	maxTail     = 4 << 10               // bytes after a terminator; a longer rest closes the connection
	staleWithin = time.Second / 4       // if a reused connection breaks so soon, it was closed while idle
)

// httpExchange is one running attempt: the request, its deadlines and the response. The types that embed it read the
// response's body.
type httpExchange struct {
	options *Options
	attempt *engine.Attempt

	parent context.Context // the caller's
	ctx    context.Context
	cancel context.CancelCauseFunc
	trace  httptrace.ClientTrace
	timer  *time.Timer // idle timer; runs only during waits

	sentAt   time.Time // when it was sent
	kept     bool      // its connection was reused
	resp     *http.Response
	bound    usageBound
	finished bool // the terminator was received: little is left, and the connection may be reused
	closed   bool
}

// answer is an exchange with one of three ways to read its answer.
type answer interface {
	engine.Stream
	// begin reads an answer with status 200 up to its first byte, or completely if it is not a stream.
	begin() error
}

// open sends the attempt and reads the beginning of the answer. On failure everything is closed.
func (x *httpExchange) open(ctx context.Context, a answer) *engine.Failure {
	x.parent, x.sentAt = ctx, x.options.Now()
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if d := x.attempt.FirstByteTimeout; d > 0 {
		timer := time.AfterFunc(d, func() { x.cancel(engine.ErrFirstByte) })
		defer timer.Stop()
	}
	opened := false
	defer func() { // also after a panic
		if !opened {
			x.Close()
		}
	}()
	if err := x.send(a); err != nil {
		f := x.failure(err)
		f.ReusedConnection = x.kept && x.resp == nil && (f.Kind == engine.Reset || f.Kind == engine.Cut)
		f.StaleConnection = f.ReusedConnection && x.options.Now().Sub(x.sentAt) < staleWithin
		return f
	}
	opened = true
	return nil
}

// send sends the request, and calls begin for an answer with status 200.
func (x *httpExchange) send(a answer) error {
	path, body := encode(x.attempt.Call)
	x.bound = usageBound{sent: body, prompt: x.attempt.MaxPrompt, answer: x.attempt.MaxAnswer}
	req, err := x.request(path, body)
	if err != nil {
		return err
	}
	if x.resp, err = x.options.Transport.RoundTrip(req); err != nil {
		return err
	}
	if x.resp.StatusCode != http.StatusOK {
		return refusal(x.resp)
	}
	if _, pass := x.attempt.Call.(*engine.Forward); !pass && x.attempt.Sent != nil {
		x.attempt.Sent(body)
	}
	return a.begin()
}

func (x *httpExchange) request(path string, body []byte) (*http.Request, error) {
	x.trace.GotConn = func(c httptrace.GotConnInfo) { x.kept = c.Reused }
	ctx := httptrace.WithClientTrace(x.ctx, &x.trace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.attempt.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range x.attempt.Header {
		req.Header[k] = v
	}
	if x.attempt.ID != "" {
		req.Header["X-Request-Id"] = []string{x.attempt.ID}
	}
	req.Header["Content-Type"] = jsonType
	if x.attempt.Rank >= 0 {
		req.Header["X-Data-Parallel-Rank"] = []string{strconv.Itoa(x.attempt.Rank)}
	}
	return req, nil
}

// The media types of what engines send and read.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

var jsonType = []string{typeJSON} // read-only

// await starts the idle timer of the exchange.
func (x *httpExchange) await() {
	if x.timer == nil {
		x.timer = time.AfterFunc(x.attempt.IdleTimeout, func() { x.cancel(engine.ErrStalled) })
		return
	}
	x.timer.Reset(x.attempt.IdleTimeout)
}

// failure returns why the exchange ended.
func (x *httpExchange) failure(err error) *engine.Failure {
	f, ok := err.(*engine.Failure)
	if !ok {
		f = &engine.Failure{Kind: transportKind(x.parent, x.ctx, err), Err: err}
	}
	if x.resp != nil {
		f.Responded = x.resp.StatusCode
	}
	return f
}

// Close implements [engine.Stream]. It keeps the connection if the answer has ended; otherwise it closes it, which tells
// the engine to stop.
func (x *httpExchange) Close() {
	if x.closed {
		return
	}
	x.closed = true
	if x.finished {
		late := time.AfterFunc(drainWait, func() { x.cancel(context.Canceled) })
		_, _ = io.CopyN(io.Discard, x.resp.Body, maxTail)
		late.Stop()
	}
	x.cancel(context.Canceled)
	if x.resp != nil {
		_ = x.resp.Body.Close() // errors of an abandoned body do not matter
	}
}

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
	drainWait   = 50 * time.Millisecond // for the end of a body behind its terminator
	maxTail     = 4 << 10               // bytes behind a terminator; a body that has more is closed
	staleWithin = time.Second / 4       // a kept connection that was closed while it was idle breaks so soon
)

// httpExchange is one running attempt: the request, its deadlines and the response. The types that embed it read the
// response's body.
type httpExchange struct {
	options *Options
	attempt *engine.Attempt

	parent context.Context // of who asked
	ctx    context.Context
	cancel context.CancelCauseFunc
	trace  httptrace.ClientTrace
	timer  *time.Timer // of the silence; runs only while something is awaited

	begun    time.Time // when it was sent
	kept     bool      // its connection had been used before
	resp     *http.Response
	bound    usageBound
	finished bool // the terminator was seen: little is left, and the connection may be used again
	closed   bool
}

// answer is an exchange with one of three ways to read its answer.
type answer interface {
	engine.Stream
	// begin reads an answer with status 200 up to its first byte, or all of one in one piece.
	begin() error
}

// open sends the attempt and reads the beginning of the answer. On failure everything is closed.
func (x *httpExchange) open(ctx context.Context, a answer) *engine.Failure {
	x.parent, x.begun = ctx, x.options.Now()
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if d := x.attempt.FirstByteTimeout; d > 0 {
		timer := time.AfterFunc(d, func() { x.cancel(engine.ErrFirstByte) })
		defer timer.Stop()
	}
	opened := false
	defer func() { // it may panic, too
		if !opened {
			x.Close()
		}
	}()
	if err := x.send(a); err != nil {
		f := x.failure(err)
		f.ReusedConnection = x.kept && x.resp == nil && (f.Kind == engine.Reset || f.Kind == engine.Cut)
		f.StaleConnection = f.ReusedConnection && x.options.Now().Sub(x.begun) < staleWithin
		return f
	}
	opened = true
	return nil
}

// send makes the request, and has an answer with status 200 begun.
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

var jsonType = []string{typeJSON} // never changed

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
		_ = x.resp.Body.Close() // nothing is owed to a body that is given up
	}
}

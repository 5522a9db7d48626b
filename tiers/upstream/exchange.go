package upstream

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/upstream/http1"
)

const (
	drainWait   = 50 * time.Millisecond // for the end of a body after its terminator
	maxTail     = 4 << 10               // bytes after a terminator; a longer rest closes the connection
	staleWithin = time.Second / 4       // if a reused connection breaks so soon, it was closed while idle
)

// exchanger sends a request and reads the head of its response, as [http1.Transport.Do] does.
type exchanger interface {
	Do(ctx context.Context, req *http1.Request, resp *http1.Response) error
}

// httpExchange is one running attempt: the request, its deadlines and the response. The types that embed it read the
// response's body.
type httpExchange struct {
	options *Options
	client  exchanger
	attempt *engine.Attempt

	parent context.Context // the caller's
	req    http1.Request
	fields [3]http1.Field // memory of req.Fields
	body   [7][]byte      // memory of the pieces of req.Body and req.More
	resp   http1.Response

	sentAt   time.Time // when it was sent
	answered bool      // a response began
	opened   bool      // what Open reads of it was read
	bound    usageBound
	finished bool // the terminator was received: little is left, and the connection may be reused
	closed   bool
	tail     [64]byte // what is left
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
	defer func() { // also after a panic
		if !x.opened {
			x.Close()
		}
	}()
	if err := x.send(a); err != nil {
		f := x.failure(err)
		f.ReusedConnection = x.resp.Reused && !x.answered && (f.Kind == engine.Reset || f.Kind == engine.Cut)
		f.StaleConnection = f.ReusedConnection && x.options.Now().Sub(x.sentAt) < staleWithin
		return f
	}
	x.opened = true
	return nil
}

// send sends the request, and calls begin for an answer with status 200.
func (x *httpExchange) send(a answer) error {
	path, body, err := encode(x.attempt.Call, dialect.Of(x.attempt.Engine))
	if err != nil {
		return &engine.Failure{Kind: engine.Rejected, Err: err}
	}
	x.bound = usageBound{sent: body, prompt: x.attempt.MaxPrompt, answer: x.attempt.MaxAnswer}
	x.request(path, &body)
	if err := x.client.Do(x.parent, &x.req, &x.resp); err != nil {
		return err
	}
	x.answered = true
	if x.resp.Status != http.StatusOK {
		return refusal(&x.resp)
	}
	if _, pass := x.attempt.Call.(*engine.Forward); !pass && x.attempt.Sent != nil {
		x.attempt.Sent(body.Bytes())
	}
	return a.begin()
}

// request sets the request.
func (x *httpExchange) request(path string, body *openai.Pieces) {
	fields := append(x.fields[:0], http1.Field{Name: "Content-Type", Value: typeJSON})
	if x.attempt.ID != "" {
		fields = append(fields, http1.Field{Name: "X-Request-Id", Value: x.attempt.ID})
	}
	if x.attempt.Rank >= 0 {
		fields = append(fields, http1.Field{Name: "X-Data-Parallel-Rank", Value: strconv.Itoa(x.attempt.Rank)})
	}
	pieces := body.Append(x.body[:0])
	x.req = http1.Request{
		Base: x.attempt.URL, Path: path, Header: x.attempt.Header, Fields: fields, Body: pieces[0], More: pieces[1:], Wait: x.attempt.FirstByteTimeout,
		Identity: (*http1.Identity)(x.attempt.Credentials),
	}
}

// The media types of what engines send and read.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
	typeStream = typeEvents + "; charset=utf-8" // of forwarded events
)

// mediaType returns the media type in a Content-Type, without its parameters; "" if it is not valid.
func mediaType(value string) string {
	switch value { // of almost all answers
	case typeJSON:
		return typeJSON
	case typeEvents, typeStream:
		return typeEvents
	}
	kind, _, _ := mime.ParseMediaType(value)
	return kind
}

// await bounds the reads of the next chunk.
func (x *httpExchange) await() { x.resp.Body.SetWait(x.attempt.IdleTimeout) }

// failure returns why the exchange ended.
func (x *httpExchange) failure(err error) *engine.Failure {
	f, ok := err.(*engine.Failure)
	if !ok {
		if errors.Is(err, http1.ErrTimeout) {
			err = x.late()
		}
		f = &engine.Failure{Kind: transportKind(x.parent, err), Err: err}
	}
	if x.answered {
		f.Responded = x.resp.Status
	}
	return f
}

// late returns which wait was too long.
func (x *httpExchange) late() error {
	if x.opened {
		return engine.ErrStalled
	}
	return engine.ErrFirstByte
}

// Close implements [engine.Stream]. It keeps the connection if the answer has ended; otherwise it closes it, which tells
// the engine to stop.
func (x *httpExchange) Close() {
	if x.closed {
		return
	}
	x.closed = true
	if !x.answered {
		return
	}
	if x.finished {
		x.resp.Body.SetWait(drainWait)
		for n, err := 0, error(nil); err == nil && n < maxTail; {
			var m int
			m, err = x.resp.Body.Read(x.tail[:])
			n += m
		}
	}
	x.resp.Body.Close()
}

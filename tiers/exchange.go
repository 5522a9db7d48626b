package tiers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/scoring"
)

const (
	mostEvent     = 1 << 20  // bytes of one server-sent event
	mostErrorBody = 64 << 10 // bytes read of an error response
	mostHint      = 60 * time.Second
	drainWait     = 50 * time.Millisecond // for the end of a body behind its terminator
	staleWithin   = time.Second / 4       // a kept connection that was closed while it was idle breaks so soon
)

// call is one request to be sent to some backend of a pool.
type call struct {
	pool       *pool.Pool
	tier       plan.Tier // the pool's for this route
	turn       Turn
	demand     pool.Demand
	path       string
	body       []byte
	stream     bool // the answer is read event by event
	judged     bool // its chunks' logprobs and ids are read
	raw        bool // the answer is passed on unread
	answerless bool // it makes no text

	choices int // that a streamed answer has when it is whole; 0 is 1
	prompts int // tokens that its prompts can have; 0 goes by the body's bytes

	read    func(body []byte) error     // of a question: takes in the answer, which is not one to a client; nil otherwise
	made    func() *openai.Usage        // of a question: what the engine counted, which is cut to what can be; nil is nothing that the next could be judged by
	before  func(context.Context) error // of a question: called before it is sent; with an error it is not
	scoring *scoring.Config             // it asks what the engine thinks of a draft: within these bounds; nil otherwise
	tokens  int                         // that such a question has computed

	firstByte time.Duration // longest wait for the first byte; 0 leaves it to the request's deadline
	chunk     time.Duration // longest silence after it
	stays     bool          // it stays where it is, though the backend seems to hang

	id     string      // of the request: what the ids of its calls begin with; "" names none
	header http.Header // to be sent along: trace
	spans  bool        // it is a span of its own in that trace
}

// exchange is one call under way at one backend. It must be closed: whoever has it defers
// drop, so that a panic costs its request and nothing else.
type exchange struct {
	call
	cascade *Cascade
	receipt *receipt.Receipt
	lease   pool.Lease
	gate    func(error)

	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	trace  httptrace.ClientTrace
	timer  *time.Timer // of the silence between chunks; runs only while one is awaited

	resp    *http.Response
	events  *openai.EventReader
	parser  openai.ChunkParser
	held    *openai.Chunk // the first chunk, read while opening
	heldRaw []byte
	answer  openai.Answer // of an answer that is not streamed
	whole   []byte        // its bytes; of a raw answer the buffer it is read into
	kind    string        // of a raw answer: its type
	came    int64         // bytes of the events that have come

	begun    time.Time // when it was sent
	entry    int       // of it in the receipt's tries, counted from 1; 0 is none, or none any more
	first    time.Time // when the first byte came
	counted  bool      // the prompt's length was told
	kept     bool      // its connection had been used before
	finishes finishes  // the choices that have finished
	ended    bool      // the terminator was seen: the connection may be reused
	closing  sync.Once
}

// open sends the call and waits for its first byte: the first event of a
// stream, or the whole of another answer. On failure everything is closed and
// reported, and the error is a *Failure.
func (x *exchange) open(ctx context.Context) *engine.Failure {
	x.parent = ctx
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if x.firstByte > 0 {
		first := time.AfterFunc(x.firstByte, func() { x.cancel(engine.ErrFirstByte) })
		defer first.Stop()
	}
	opened := false
	defer func() {
		if !opened {
			x.drop()
		}
	}()
	x.moves(!x.stays)
	if err := x.send(x.cascade.transport); err != nil {
		f := x.failure(err)
		f.Kept = x.kept && x.resp == nil && (f.Kind == engine.Reset || f.Kind == engine.Cut)
		f.Stale = f.Kept && x.cascade.now().Sub(x.begun) < staleWithin
		x.close(f, 0)
		return f
	}
	x.first = x.cascade.now()
	if x.stream {
		x.lease.FirstToken() // the first byte of another answer is its last, too
	} else if x.raw {
		x.moves(false) // nobody could carry on with it
	}
	x.gate(nil)
	opened = true
	return nil
}

// moves says whether the call is given up as soon as its backend seems to hang: until the
// first byte any other backend can answer, after it somebody must be able to carry on.
func (x *exchange) moves(may bool) {
	if !may {
		x.lease.OnLost(nil)
		return
	}
	x.lease.OnLost(x.cancel)
}

func (x *exchange) send(transport http.RoundTripper) error {
	x.trace.GotConn = func(c httptrace.GotConnInfo) { x.kept = c.Reused }
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(x.ctx, &x.trace), http.MethodPost, x.lease.URL()+x.path, bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	for k, v := range x.header {
		req.Header[k] = v
	}
	x.askID(req.Header)
	if x.spans {
		x.span(req.Header)
	}
	req.Header.Set("Content-Type", "application/json")
	if rank := x.lease.Rank(); rank >= 0 {
		req.Header["X-Data-Parallel-Rank"] = []string{strconv.Itoa(rank)}
	}
	x.resp, err = transport.RoundTrip(req)
	if err != nil {
		return err
	}
	if x.resp.StatusCode != http.StatusOK {
		return x.refusal()
	}
	if !x.raw {
		x.lease.Sent(x.body)
	}
	switch {
	case x.read != nil:
		return x.readQuestion()
	case x.raw:
		if x.kind, err = passable(x.resp.Header); err != nil {
			return err
		}
		return x.readFirst()
	case !x.stream:
		return x.readAnswer()
	}
	if kind, _, _ := mime.ParseMediaType(x.resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("%w: content type %q of a stream", engine.ErrBody, kind)
	}
	x.events = openai.NewEventReader(x.resp.Body, mostEvent)
	x.parser.Judged, x.finishes.want = x.judged, x.choices
	x.heldRaw, x.held, err = x.readChunk()
	return err
}

// refusal turns a response with an error status into a failure.
func (x *exchange) refusal() error {
	body, _ := io.ReadAll(io.LimitReader(x.resp.Body, mostErrorBody)) // what there is tells enough
	f := &engine.Failure{Kind: statusKind(x.resp.StatusCode), Status: x.resp.StatusCode, Fault: openai.ParseFault(body)}
	if s, err := strconv.Atoi(x.resp.Header.Get("Retry-After")); err == nil && s > 0 {
		f.RetryAfter = min(time.Duration(s)*time.Second, mostHint)
	}
	return f
}

// readAnswer reads an answer that is not streamed, whole and checked, so that a
// bad one can still be asked of another backend.
func (x *exchange) readAnswer() error {
	body, err := x.readAll()
	if err != nil {
		return err
	}
	x.answer, err = openai.ParseAnswer(body)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", engine.ErrBody, err)
	case x.answer.Fault != nil:
		return &engine.Failure{Kind: engine.ServerError, Status: x.answer.Fault.Status, Fault: x.answer.Fault}
	case x.answer.Aborted:
		return &engine.Failure{Kind: engine.Aborted}
	case x.answer.Choices == 0:
		return fmt.Errorf("%w: an answer without choices", engine.ErrBody)
	}
	x.answer.Usage = x.clamp(x.answer.Usage, inOnePiece)
	x.whole, x.ended = body, true
	x.lease.Answered()
	x.count(x.answer.Usage.Prompt)
	return nil
}

// readQuestion reads the answer to a question, whole and understood.
func (x *exchange) readQuestion() error {
	body, err := x.readAll()
	if err != nil {
		return err
	}
	if err := x.read(body); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrBody, err)
	}
	x.ended = true
	x.lease.Answered()
	return nil
}

// count tells the pool how long the prompt really was.
func (x *exchange) count(prompt int) {
	if !x.counted {
		x.counted = true
		x.lease.Counted(prompt)
	}
}

// readAll reads the body up to the cap, at once where its length is told.
func (x *exchange) readAll() ([]byte, error) {
	length := x.resp.ContentLength
	if length > x.cascade.mostBody {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", engine.ErrBody, length, x.cascade.mostBody)
	}
	var buf bytes.Buffer
	buf.Grow(int(max(length, 0)) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(x.resp.Body, x.cascade.mostBody+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > x.cascade.mostBody {
		return nil, fmt.Errorf("%w: more than %d bytes", engine.ErrBody, x.cascade.mostBody)
	}
	return buf.Bytes(), nil
}

// next returns the next chunk with its bytes; io.EOF after the terminator. Any
// other error is a *Failure. What is returned is valid until the next call.
func (x *exchange) next() ([]byte, *openai.Chunk, error) {
	if c := x.held; c != nil {
		x.held = nil
		return x.heldRaw, c, nil
	}
	fresh := !x.events.Buffered() // what is at hand says nothing of the backend now
	x.watch()
	raw, c, err := x.readChunk()
	x.timer.Stop()
	if err == nil {
		x.lease.Came()
	}
	if err == nil && fresh {
		x.lease.Answered()
	}
	if err != nil && err != io.EOF {
		return nil, nil, x.failure(err)
	}
	return raw, c, err
}

// watch starts the timer that ends a silent call.
func (x *exchange) watch() {
	if x.timer == nil {
		x.timer = time.AfterFunc(x.chunk, func() { x.cancel(engine.ErrStalled) })
		return
	}
	x.timer.Reset(x.chunk)
}

func (x *exchange) readChunk() ([]byte, *openai.Chunk, error) {
	for {
		raw, c, err := x.readEvent()
		if err != nil || c.Choices > 0 || c.HasUsage {
			return raw, c, err
		}
	} // an event that says nothing is passed over
}

func (x *exchange) readEvent() ([]byte, *openai.Chunk, error) {
	raw, err := x.events.Next()
	if err == io.EOF {
		return nil, nil, io.ErrUnexpectedEOF // the terminator is owed
	}
	if err != nil {
		return nil, nil, err
	}
	if string(raw) == openai.Done {
		if !x.finishes.all() {
			return nil, nil, io.ErrUnexpectedEOF
		}
		x.ended = true
		return nil, nil, io.EOF
	}
	c, err := x.parser.Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", engine.ErrBody, err)
	}
	x.came += int64(len(raw))
	if c.Fault != nil {
		return nil, nil, x.eventFault(c.Fault)
	}
	if c.Aborted {
		return nil, nil, &engine.Failure{Kind: engine.Aborted}
	}
	x.finishes.add(c.Ended)
	if c.HasUsage {
		c.Usage = x.clamp(c.Usage, x.came)
		x.count(c.Usage.Prompt)
	}
	return raw, c, nil
}

// eventFault turns an error event into the failure its code names.
func (x *exchange) eventFault(f *openai.Fault) *engine.Failure {
	kind := engine.ServerError
	if f.Status >= 400 {
		kind = statusKind(f.Status)
	}
	return &engine.Failure{Kind: kind, Status: f.Status, Fault: f}
}

// buffered reports whether the next event is at hand.
func (x *exchange) buffered() bool { return x.held != nil || x.events.Buffered() }

func (x *exchange) failure(err error) *engine.Failure {
	f, ok := err.(*engine.Failure)
	if !ok {
		f = &engine.Failure{Kind: transportKind(x.parent, x.ctx, err), Err: err}
	}
	f.Pool, f.Backend = x.pool.Name(), x.lease.Backend()
	return f
}

// close ends the exchange: a stream that has not come to its end is aborted by
// closing its connection. f is why, nil when all went well or the gateway itself
// had enough; generated counts the tokens that came.
func (x *exchange) close(f *engine.Failure, generated int) {
	x.closing.Do(func() {
		defer x.leave(generated) // also when something before it panics
		defer x.report(f)
		x.hangUp()
		x.settleTry(f, generated)
	})
}

// drop closes an exchange that was not closed.
func (x *exchange) drop() { x.close(nil, 0) }

// hangUp ends the call, if it was made. The connection is kept where the answer has ended.
func (x *exchange) hangUp() {
	if x.cancel == nil {
		return
	}
	if x.resp != nil && x.ended {
		soon := time.AfterFunc(drainWait, func() { x.cancel(context.Canceled) })
		drain(x.resp.Body)
		soon.Stop()
	}
	x.cancel(context.Canceled)
	if x.resp != nil {
		_ = x.resp.Body.Close() // nothing is owed to a body that is given up
	}
}

// leave gives the place at the backend back.
func (x *exchange) leave(generated int) {
	usd := x.lease.Done(generated)
	x.receipt.USD += usd
	x.cascade.metrics.cost.WithLabelValues(string(x.tier)).Add(usd)
}

// drain reads what little is left after the terminator, so that the connection
// can be used again.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, 4<<10) // a body that has more is closed instead
}

// report tells the pool and the breaker what came of the call.
func (x *exchange) report(f *engine.Failure) {
	switch {
	case x.first.IsZero() && f == nil:
		x.gate(&engine.Failure{Kind: engine.Gone})
	case x.first.IsZero():
		if f.Kind == engine.Refused {
			x.lease.Refused(f)
		}
		if c := engine.Classify(f); x.scoring == nil && (c == engine.ClassFault || c == engine.ClassBusy) {
			x.lease.Failed() // however fast it says so
		}
		if f.Kind == engine.Expired { // not a byte in all that time is the backend's fault
			f = &engine.Failure{Kind: engine.Timeout, Pool: f.Pool, Backend: f.Backend, Err: f.Err}
		}
		x.gate(f)
	case f != nil && x.scoring == nil:
		// The outcome was told at the first byte; a later fault is one more sample.
		if done, err := x.cascade.gate.Allow(x.pool.Name(), x.lease.Backend()); err == nil {
			done(f)
		}
		x.cascade.metrics.failed(f)
	}
}

package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	drainWait   = 50 * time.Millisecond // for the end of a body after its terminator
	maxTail     = 4 << 10               // bytes after a terminator; a longer rest closes the connection
	staleWithin = time.Second / 4       // if a reused connection breaks so soon, it was closed while idle
)

// httpExchange is one running attempt: the request, its deadlines and the response. The types that embed it read the
// response's body.
type httpExchange struct {
	options    *Options
	transports *credentials.Transports
	attempt    *engine.Attempt

	parent context.Context // the caller's
	resp   response

	path     string    // that it asks
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
func (e *httpExchange) open(ctx context.Context, a answer) *engine.Failure {
	e.parent, e.sentAt = ctx, e.options.Now()
	defer func() { // also after a panic
		if !e.opened {
			e.Close()
		}
	}()
	if err := e.send(a); err != nil {
		f := e.failure(err)
		f.ReusedConnection = e.resp.reused && !e.answered && (f.Kind == engine.Reset || f.Kind == engine.Cut)
		f.StaleConnection = f.ReusedConnection && e.options.Now().Sub(e.sentAt) < staleWithin
		return f
	}
	e.opened = true
	return nil
}

// send sends the request, and calls begin for an answer with status 200.
func (e *httpExchange) send(a answer) error {
	path, body, err := encode(e.attempt.Call, dialect.Of(e.attempt.Engine))
	if f, is := errors.AsType[*engine.Failure](err); is {
		return f
	} else if err != nil {
		return &engine.Failure{Kind: engine.Rejected, Err: err}
	}
	e.path, e.bound = path, usageBound{sent: body, prompt: e.attempt.MaxPrompt, answer: e.attempt.MaxAnswer}
	if err := e.exchange(path, body); err != nil {
		return err
	}
	e.attempt.Pause = pause(e.resp.StatusCode, e.resp.Header)
	if e.resp.StatusCode != http.StatusOK {
		return refusal(&e.resp)
	}
	return a.begin()
}

// tellsIDsInLogprobs reports whether the engine's ids of tokens are in their entries of logprobs.
func (e *httpExchange) tellsIDsInLogprobs() bool {
	return dialect.Of(e.attempt.Engine).Members.IDsInLogprobs
}

// exchange sends a request and reads the head of its response.
func (e *httpExchange) exchange(path string, body []byte) error {
	e.resp.watch.watch(e.parent, e.attempt.FirstByteTimeout)
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { e.resp.reused = c.Reused }}
	req, err := e.request(httptrace.WithClientTrace(e.resp.watch.ctx, trace), path, body)
	if err != nil {
		return err
	}
	e.setHeader(req.Header)
	e.resp.watch.begin()
	e.resp.Response, err = e.transports.RoundTrip(req, e.attempt.Credentials)
	err = e.resp.watch.end(err)
	e.answered = err == nil
	return err
}

// request returns the HTTP request: a POST of the body, or what only asks.
func (e *httpExchange) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	if _, asks := e.attempt.Call.(*engine.Ask); asks {
		return http.NewRequestWithContext(ctx, http.MethodGet, e.attempt.URL+path, nil)
	}
	return http.NewRequestWithContext(ctx, http.MethodPost, e.attempt.URL+path, bytes.NewReader(body))
}

// setHeader sets the header lines of a request, but for those of the pool's credentials.
func (e *httpExchange) setHeader(h http.Header) {
	h["User-Agent"] = userAgent
	maps.Copy(h, e.attempt.Header)
	h["Content-Type"] = contentJSON
	if e.attempt.ID != "" {
		h["X-Request-Id"] = []string{e.attempt.ID}
	}
}

// Values of header lines; requests share them.
var (
	contentJSON = []string{typeJSON}
	userAgent   = []string{"foregate"}
)

// The media types of what engines send and read.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
	typeStream = typeEvents + "; charset=utf-8" // of forwarded events
)

// mediaType returns the media type in a Content-Type, without its parameters; "" if it is not valid.
func mediaType(value string) string {
	kind, _, _ := mime.ParseMediaType(value)
	return kind
}

// await bounds the reads of the next chunk.
func (e *httpExchange) await() { e.resp.watch.restart(e.attempt.IdleTimeout) }

// failure returns why the exchange ended.
func (e *httpExchange) failure(err error) *engine.Failure {
	f, ok := err.(*engine.Failure)
	if !ok {
		if errors.Is(err, errLate) {
			err = e.late()
		}
		f = &engine.Failure{Kind: transportKind(e.parent, err), Err: err}
	}
	if e.answered {
		f.Responded = e.resp.StatusCode
	}
	if f.Kind == engine.WrongModel {
		f.Path = e.path
		if isOptional(e.attempt.Call) {
			f.Kind = engine.Rejected // not every engine has these paths
		}
	}
	return f
}

// late returns which wait was too long.
func (e *httpExchange) late() error {
	if e.opened {
		return engine.ErrStalled
	}
	return engine.ErrFirstByte
}

// Close implements [engine.Stream]. It keeps the connection if the answer has ended; otherwise it closes it, which tells
// the engine to stop.
func (e *httpExchange) Close() {
	if e.closed {
		return
	}
	e.closed = true
	if e.answered && e.finished {
		e.resp.watch.restart(drainWait)
		for n, err := 0, error(nil); err == nil && n < maxTail; {
			var m int
			m, err = e.resp.Read(e.tail[:])
			n += m
		}
	}
	e.resp.close()
}

// errLate ends a request whose engine sends nothing in time.
var errLate = errors.New("no bytes of a response in time")

// watchdog ends a request if a wait for the engine takes too long. Its timer only runs while the exchange waits: what the
// reader takes between two reads is not the engine's.
type watchdog struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer   // made by the first bounded wait
	wait   time.Duration // bound of the reads to come, from the first of them; 0 is none or begun
	until  time.Time     // bound of the current ones; zero is none
}

// watch bounds a request that begins now. wait bounds the time until the whole response is read, or until restart is
// called; 0 is no bound.
func (w *watchdog) watch(ctx context.Context, wait time.Duration) {
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if wait > 0 {
		w.until = time.Now().Add(wait)
	}
}

// restart bounds the time of the following reads together, counted from the beginning of the first. 0 is no bound.
func (w *watchdog) restart(wait time.Duration) { w.wait, w.until = wait, time.Time{} }

// begin is called before each wait, end after it.
func (w *watchdog) begin() {
	if w.wait > 0 {
		w.until, w.wait = time.Now().Add(w.wait), 0
	}
	switch {
	case w.until.IsZero():
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(w.until), func() { w.cancel(errLate) })
	default:
		w.timer.Reset(time.Until(w.until))
	}
}

// end returns err, or errLate if the wait was too long.
func (w *watchdog) end(err error) error {
	if w.timer != nil {
		w.timer.Stop()
	}
	if err != nil && err != io.EOF && errors.Is(context.Cause(w.ctx), errLate) {
		return errLate
	}
	return err
}

// response is what an engine answered.
type response struct {
	*http.Response
	reused bool // the connection had served an earlier request; also set if the exchange failed
	watch  watchdog
}

// Read reads the body, within the bound of the wait.
func (r *response) Read(p []byte) (int, error) {
	r.watch.begin()
	n, err := r.Body.Read(p)
	return n, r.watch.end(err)
}

// close ends the request. The connection is kept if the body was read to its end.
func (r *response) close() {
	if r.watch.cancel != nil {
		r.watch.cancel(context.Canceled)
	}
	if r.Response != nil {
		_ = r.Body.Close() // errors of an abandoned body do not matter
	}
}

// usageBound is the largest possible usage of a call. Limits, metrics, receipts, costs and audits use values
// within it.
type usageBound struct {
	sent   []byte // the call's body
	prompt int    // maximum for its prompts; 0: derived from sent
	answer int    // maximum for its answer

	searched  bool // sent was searched: the next fields are known
	maxTokens int  // maximum tokens in sent
	hides     bool // the answer may omit generated tokens
}

// inOnePiece tells clamp that the answer is not a stream.
const inOnePiece = -1

// clamp limits the usage that an engine reports: the prompt by the bytes that were sent, the answer by its limit, and in
// a stream by the bytes received, because each token is an event or a part of one. An engine that goes on behind the limit
// has generated what it said: a token has at least a byte. Without a count it has, by estimate.
func (b *usageBound) clamp(u openai.Usage, came int64, said int) openai.Usage {
	if u.Completion <= 0 {
		u.Completion = openai.EstimateTokens(said)
	}
	prompt, answer := cmp.Or(b.prompt, len(b.sent)), max(b.answer, said)
	if b.prompt == 0 && u.Prompt > prompt {
		b.search()
		prompt = b.maxTokens
	}
	if came != inOnePiece && int64(u.Completion) > came {
		if b.search(); !b.hides {
			answer = min(answer, int(came))
		}
	}
	prompt = min(max(u.Prompt, 0), prompt)
	return openai.Usage{Prompt: prompt, Completion: min(max(u.Completion, 0), answer), Cached: min(max(u.Cached, 0), prompt)}
}

// search searches the body, once and only if it may matter.
func (b *usageBound) search() {
	if !b.searched {
		b.searched, b.maxTokens, b.hides = true, openai.MaxPromptTokens(b.sent), openai.HidesTokens(b.sent)
	}
}

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const maxEvent = 1 << 20 // bytes of one server-sent event

// events is an answer as server-sent events.
type events struct {
	httpExchange
	reader     *openai.EventReader
	parser     openai.ChunkParser
	firstChunk *openai.Chunk // the first, read by Open
	finishes   engine.FinishTracker
	complete   bool   // all choices have ended and the usage has come: nothing but the terminator is missing
	repeated   []byte // what the answer must begin with, and what is no part of it
	came       int64  // bytes of the events received
	said       int    // bytes of the answer in them
}

func (e *events) begin() (err error) {
	if kind := mediaType(e.resp.Header.Get("Content-Type")); kind != typeEvents {
		return fmt.Errorf("%w: content type %q of a stream", engine.ErrBody, kind)
	}
	e.reader = openai.NewEventReader(signs{&e.httpExchange}, maxEvent)
	e.firstChunk, err = e.read()
	return err
}

// signs reads a stream that has begun: whatever comes is a sign of life, a comment as well as a token, and the wait for the
// next begins anew.
type signs struct{ *httpExchange }

func (s signs) Read(p []byte) (int, error) {
	n, err := s.resp.Read(p)
	if n > 0 && s.opened {
		s.await()
	}
	return n, err
}

// Next implements [engine.Stream].
func (e *events) Next(want engine.Want) (*openai.Chunk, error) {
	if c := e.firstChunk; c != nil {
		e.firstChunk = nil
		return c, nil
	}
	if e.finished {
		return nil, io.EOF
	}
	e.parser.NoTop = want != engine.WantTops
	e.await()
	c, err := e.read()
	if err != nil && err != io.EOF {
		return nil, e.failure(err)
	}
	return c, err
}

// Buffered implements [engine.Stream].
func (e *events) Buffered() bool { return e.firstChunk != nil || e.reader.Buffered() }

// read reads the next event with content.
func (e *events) read() (*openai.Chunk, error) {
	for {
		c, err := e.readEvent()
		if err != nil || c.Choices > 0 || c.HasUsage {
			return c, err
		}
	}
}

func (e *events) readEvent() (*openai.Chunk, error) {
	data, err := e.reader.Next()
	switch {
	case e.complete && (err != nil || string(data) == openai.Done):
		return nil, e.end()
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF // the terminator is missing
	case err != nil:
		return nil, err
	case string(data) == openai.Done && e.finishes.AllBegun():
		return nil, e.end()
	case string(data) == openai.Done:
		return nil, io.ErrUnexpectedEOF
	}
	c, err := e.parser.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrBody, err)
	}
	e.came += int64(len(data))
	if c.Fault != nil {
		return nil, eventFailure(c.Fault)
	}
	if c.Aborted {
		return nil, &engine.Failure{Kind: engine.Aborted}
	}
	e.finishes.Add(c)
	if err := e.leaveOut(c); err != nil {
		return nil, err
	}
	e.said += c.Size()
	if c.HasUsage {
		c.Usage = e.bound.clamp(c.Usage, e.came, e.said)
		openai.WriteUsage(data, c.Counts, c.Usage)
		e.complete = e.finishes.All()
	}
	return c, nil
}

// errNotRepeated says that an engine which repeats a text that it continues did not do so.
var errNotRepeated = errors.New("the answer does not begin with the text that it continues")

// leaveOut takes from a chunk what it repeats of the text that is continued.
func (e *events) leaveOut(c *openai.Chunk) error {
	n := min(len(e.repeated), len(c.Text))
	if !bytes.Equal(c.Text[:n], e.repeated[:n]) || n < len(e.repeated) && len(c.Finish) > 0 {
		return fmt.Errorf("%w: %w", engine.ErrBody, errNotRepeated)
	}
	c.Text, e.repeated = c.Text[n:], e.repeated[n:]
	return nil
}

// end ends a whole answer.
func (e *events) end() error {
	e.finished = true
	return io.EOF
}

// whole is an answer that is not a stream. It is read and checked in Open, so that an invalid one can still
// be retried on another backend.
type whole struct{ httpExchange }

func (w *whole) begin() error {
	body, err := w.readAll()
	if err != nil {
		return err
	}
	return w.taken(w.take(openai.TrimByteOrderMark(body)))
}

// Next implements [engine.Stream].
func (*whole) Next(engine.Want) (*openai.Chunk, error) { return nil, io.EOF }

// Buffered implements [engine.Stream].
func (*whole) Buffered() bool { return true }

// mergedStream is an answer in one piece that was requested as a stream: see [dialect.Dialect].IgnoresClose.
type mergedStream struct{ events }

// merges reports whether the attempt is for an answer in one piece that is requested as a stream.
func (e *httpExchange) merges() bool {
	switch call := e.attempt.Call.(type) {
	case *engine.Relay:
		return !call.Request.Stream && dialect.Of(e.attempt.Engine).IgnoresClose
	case *engine.Answer, *engine.Judge:
		return dialect.Of(e.attempt.Engine).IgnoresClose
	}
	return false
}

func (s *mergedStream) begin() error {
	all := openai.NewMerger(int(s.options.MaxBody))
	err := s.events.begin()
	for c := s.firstChunk; err == nil; c, err = s.readEvent() {
		if err := all.Add(c.Raw); errors.Is(err, openai.ErrTooLong) {
			return tooLarge(s.options.MaxBody)
		} else if err != nil {
			return s.taken(err)
		}
	}
	if err != io.EOF {
		return err
	}
	return s.taken(s.take(all.Whole()))
}

// Next implements [engine.Stream].
func (*mergedStream) Next(engine.Want) (*openai.Chunk, error) { return nil, io.EOF }

// Buffered implements [engine.Stream].
func (*mergedStream) Buffered() bool { return true }

// taken returns the error of an answer that was read.
func (e *httpExchange) taken(err error) error {
	if _, is := err.(*engine.Failure); is || err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrBody, err)
}

// readAll reads the body up to the limit.
func (w *whole) readAll() ([]byte, error) {
	length, limit := w.resp.ContentLength, w.options.MaxBody
	if length > limit {
		return nil, tooLarge(limit)
	}
	if length >= 0 {
		body := make([]byte, length)
		_, err := io.ReadFull(&w.resp, body)
		return body, err
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(io.LimitReader(&w.resp, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, tooLarge(limit)
	}
	return buf.Bytes(), nil
}

func tooLarge(limit int64) *engine.Failure {
	return &engine.Failure{Kind: engine.TooLarge, Err: engine.AboveLimit(limit)}
}

// take sets what the call's Into points to.
func (e *httpExchange) take(body []byte) (err error) {
	switch c := e.attempt.Call.(type) {
	case *engine.Relay:
		return e.relayed(c.Into, body)
	case *engine.Answer:
		return e.drafted(c.Into, body)
	case *engine.Score:
		*c.Into, err = c.Question.Parse(body)
		e.attempt.Used = openai.Usage{Prompt: len(c.Question.Prompt) + len(c.Question.Draft), Cached: c.Into.Cached}
	case *engine.Judge:
		*c.Into, err = openai.ParseJudge(body)
		e.attempt.Used = e.bound.clamp(c.Into.Usage, inOnePiece, 0)
	case *engine.TokenizeText:
		*c.Into, err = openai.ParseTokens(body)
	case *engine.TokenizePrompt:
		*c.Into, err = openai.ParseTokens(body)
	case *engine.Detokenize:
		*c.Into, err = openai.ParseText(body)
	case *engine.Ask:
		*c.Into = body
	case *post:
		return c.read(body)
	default:
		panic(fmt.Sprintf("upstream: no answer in one piece: %T", c))
	}
	return err
}

var errNoChoices = errors.New("an answer without choices")

// relayed checks an answer that goes to the client unchanged.
func (e *httpExchange) relayed(into *openai.Chunk, body []byte) error {
	a, err := openai.ParseAnswer(body)
	switch {
	case err != nil:
		return err
	case a.Fault != nil:
		return eventFailure(a.Fault)
	case a.Aborted:
		return &engine.Failure{Kind: engine.Aborted}
	case a.Choices == 0:
		return errNoChoices
	}
	a.Usage = e.bound.clamp(a.Usage, inOnePiece, a.Size())
	e.attempt.Used = a.Usage
	openai.WriteUsage(body, a.Counts, a.Usage)
	*into = a
	return nil
}

// drafted parses an answer that is judged.
func (e *httpExchange) drafted(into *openai.DraftAnswer, body []byte) (err error) {
	if *into, err = openai.ParseDraftAnswer(body, e.tellsIDsInLogprobs()); err != nil {
		return err
	}
	into.Usage = e.bound.clamp(into.Usage, inOnePiece, into.Size())
	e.attempt.Used = into.Usage
	return nil
}

// maxRead is the size of one read of a forwarded answer, in bytes.
const maxRead = 32 << 10

// raw is an answer that is forwarded byte by byte.
type raw struct {
	httpExchange
	into            *engine.Forwarded
	meter           *openai.Meter
	buf             []byte
	chunk           openai.Chunk
	prefetchedBytes int  // bytes in buf, read by Open
	ended           bool // the whole body was read
}

func (r *raw) begin() error {
	kind, err := passable(&r.resp)
	if err != nil {
		return err
	}
	*r.into = engine.Forwarded{Type: kind, Length: r.resp.ContentLength, Events: kind == typeStream}
	r.meter = openai.NewMeter(r.into.Events)
	size := int64(maxRead)
	if length := r.resp.ContentLength; length >= 0 {
		size = min(size, length+1) // one more, so that the last read also finds the end
	}
	r.buf = make([]byte, size)
	r.prefetchedBytes, err = r.read()
	return err
}

// Next implements [engine.Stream].
func (r *raw) Next(engine.Want) (*openai.Chunk, error) {
	n := r.prefetchedBytes
	r.prefetchedBytes = 0
	for n == 0 && !r.ended {
		r.await()
		var err error
		n, err = r.read()
		if err != nil {
			return nil, r.failure(err)
		}
	}
	r.chunk.Raw = r.buf[:n]
	if r.measure(); n == 0 {
		return nil, io.EOF
	}
	return &r.chunk, nil
}

// Buffered implements [engine.Stream].
func (r *raw) Buffered() bool { return r.prefetchedBytes > 0 || r.ended }

// read reads the available bytes. Bytes that came with an error are dropped.
func (r *raw) read() (int, error) {
	n, err := r.resp.Read(r.buf)
	r.ended = err == io.EOF
	if err != nil && !r.ended {
		return 0, err
	}
	return n, nil
}

// measure updates the token counts with the bytes that are forwarded now.
func (r *raw) measure() {
	r.meter.Take(r.chunk.Raw)
	came := int64(inOnePiece)
	if r.into.Events {
		came = r.meter.Bytes()
	}
	u, reported := r.meter.Usage()
	if u = r.bound.clamp(u, came, 0); !reported || !r.ended {
		u.Completion = max(u.Completion, min(r.meter.Pieces(), r.bound.answer))
	}
	r.into.Used = u
}

// passable returns the media type of a forwarded answer: JSON or an event stream, from constants of the
// gateway. Any other type is a fault of the backend: its tokens could not be counted, and a browser might
// treat it as a page of the gateway's origin.
func passable(r *response) (string, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return "", fmt.Errorf("%w: content encoding %.64q", engine.ErrBody, enc)
	}
	switch mediaType(r.Header.Get("Content-Type")) {
	case typeJSON:
		return typeJSON, nil
	case typeEvents:
		return typeStream, nil
	}
	return "", fmt.Errorf("%w: content type %.64q of an answer that passes through", engine.ErrBody, r.Header.Get("Content-Type"))
}

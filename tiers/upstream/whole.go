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

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

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

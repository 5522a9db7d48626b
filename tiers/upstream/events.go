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

func (s *events) begin() (err error) {
	if kind := mediaType(s.resp.Header.Get("Content-Type")); kind != typeEvents {
		return fmt.Errorf("%w: content type %q of a stream", engine.ErrBody, kind)
	}
	s.reader = openai.NewEventReader(signs{&s.httpExchange}, maxEvent)
	s.firstChunk, err = s.read()
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
func (s *events) Next(want engine.Want) (*openai.Chunk, error) {
	if c := s.firstChunk; c != nil {
		s.firstChunk = nil
		return c, nil
	}
	if s.finished {
		return nil, io.EOF
	}
	s.parser.NoTop = want != engine.WantTops
	s.await()
	c, err := s.read()
	if err != nil && err != io.EOF {
		return nil, s.failure(err)
	}
	return c, err
}

// Buffered implements [engine.Stream].
func (s *events) Buffered() bool { return s.firstChunk != nil || s.reader.Buffered() }

// read reads the next event with content.
func (s *events) read() (*openai.Chunk, error) {
	for {
		c, err := s.readEvent()
		if err != nil || c.Choices > 0 || c.HasUsage {
			return c, err
		}
	}
}

func (s *events) readEvent() (*openai.Chunk, error) {
	data, err := s.reader.Next()
	switch {
	case s.complete && (err != nil || string(data) == openai.Done):
		return nil, s.end()
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF // the terminator is missing
	case err != nil:
		return nil, err
	case string(data) == openai.Done && s.finishes.AllBegun():
		return nil, s.end()
	case string(data) == openai.Done:
		return nil, io.ErrUnexpectedEOF
	}
	c, err := s.parser.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrBody, err)
	}
	s.came += int64(len(data))
	if c.Fault != nil {
		return nil, eventFailure(c.Fault)
	}
	if c.Aborted {
		return nil, &engine.Failure{Kind: engine.Aborted}
	}
	s.finishes.Add(c)
	if err := s.leaveOut(c); err != nil {
		return nil, err
	}
	s.said += c.Size()
	if c.HasUsage {
		c.Usage = s.bound.clamp(c.Usage, s.came, s.said)
		openai.WriteUsage(data, c.Counts, c.Usage)
		s.complete = s.finishes.All()
	}
	return c, nil
}

// errNotRepeated says that an engine which repeats a text that it continues did not do so.
var errNotRepeated = errors.New("the answer does not begin with the text that it continues")

// leaveOut takes from a chunk what it repeats of the text that is continued.
func (s *events) leaveOut(c *openai.Chunk) error {
	n := min(len(s.repeated), len(c.Text))
	if !bytes.Equal(c.Text[:n], s.repeated[:n]) || n < len(s.repeated) && len(c.Finish) > 0 {
		return fmt.Errorf("%w: %w", engine.ErrBody, errNotRepeated)
	}
	c.Text, s.repeated = c.Text[n:], s.repeated[n:]
	return nil
}

// end ends a whole answer.
func (s *events) end() error {
	s.finished = true
	return io.EOF
}

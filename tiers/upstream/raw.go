package upstream

import (
	"fmt"
	"io"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

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

func (s *raw) begin() error {
	kind, err := passable(&s.resp)
	if err != nil {
		return err
	}
	*s.into = engine.Forwarded{Type: kind, Length: s.resp.ContentLength, Events: kind == typeStream}
	s.meter = openai.NewMeter(s.into.Events)
	size := int64(maxRead)
	if length := s.resp.ContentLength; length >= 0 {
		size = min(size, length+1) // one more, so that the last read also finds the end
	}
	s.buf = make([]byte, size)
	s.prefetchedBytes, err = s.read()
	return err
}

// Next implements [engine.Stream].
func (s *raw) Next(engine.Want) (*openai.Chunk, error) {
	n := s.prefetchedBytes
	s.prefetchedBytes = 0
	for n == 0 && !s.ended {
		s.await()
		var err error
		n, err = s.read()
		if err != nil {
			return nil, s.failure(err)
		}
	}
	s.chunk.Raw = s.buf[:n]
	if s.measure(); n == 0 {
		return nil, io.EOF
	}
	return &s.chunk, nil
}

// Buffered implements [engine.Stream].
func (s *raw) Buffered() bool { return s.prefetchedBytes > 0 || s.ended }

// read reads the available bytes. Bytes that came with an error are dropped.
func (s *raw) read() (int, error) {
	n, err := s.resp.Read(s.buf)
	s.ended = err == io.EOF
	if err != nil && !s.ended {
		return 0, err
	}
	return n, nil
}

// measure updates the token counts with the bytes that are forwarded now.
func (s *raw) measure() {
	s.meter.Take(s.chunk.Raw)
	came := int64(inOnePiece)
	if s.into.Events {
		came = s.meter.Bytes()
	}
	u, reported := s.meter.Usage()
	if u = s.bound.clamp(u, came, 0); !reported || !s.ended {
		u.Completion = max(u.Completion, min(s.meter.Pieces(), s.bound.answer))
	}
	s.into.Used = u
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

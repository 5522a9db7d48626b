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

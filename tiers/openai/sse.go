package openai

import (
	"bytes"
	"errors"
	"io"
)

// ErrEventTooLong is returned for a server-sent event above the reader's limit.
var ErrEventTooLong = errors.New("server-sent event is too long")

// Done is the payload that ends a stream.
const Done = "[DONE]"

// firstRead is the initial buffer size: larger than any chunk of one token with its logprobs.
const firstRead = 8 << 10

// EventReader splits a stream of server-sent events into their data. The result does not depend on how the
// bytes were split into reads. Lines may end in LF, CR LF or CR; comments and fields other than data are
// skipped.
type EventReader struct {
	src      io.Reader
	maxBytes int

	buf        []byte
	start, end int // unread bytes are buf[start:end]
	data       []byte
	err        error
}

// NewEventReader reads events from src. An event whose lines exceed most bytes together gives
// [ErrEventTooLong].
func NewEventReader(src io.Reader, maximum int) *EventReader {
	return &EventReader{src: src, maxBytes: maximum, buf: make([]byte, firstRead)}
}

// Next returns the data of the next event, valid until the next call. The error is io.EOF if the stream ended
// between events, io.ErrUnexpectedEOF if it ended inside one, else that of the source.
func (r *EventReader) Next() ([]byte, error) {
	reads := 0
	for {
		event, size, ok := cutEvent(r.buf[r.start:r.end], &r.data, r.err == io.EOF)
		if ok {
			r.start += size
			if event == nil {
				continue // only comments or other fields
			}
			return event, nil
		}
		if r.end-r.start > r.maxBytes {
			return nil, ErrEventTooLong
		}
		if r.err != nil {
			return nil, r.ended()
		}
		r.fill()
		if reads++; reads > r.maxBytes {
			return nil, ErrEventTooLong // a source that returns nothing, for ever
		}
	}
}

// Buffered reports whether another whole event is available without reading, so that several events may share
// one flush.
func (r *EventReader) Buffered() bool {
	var joined []byte
	for rest := r.buf[r.start:r.end]; ; {
		data, size, ok := cutEvent(rest, &joined, false)
		if !ok || data != nil {
			return ok
		}
		rest = rest[size:] // a comment
	}
}

func (r *EventReader) ended() error {
	if r.err == io.EOF && len(bytes.TrimSpace(r.buf[r.start:r.end])) > 0 {
		return io.ErrUnexpectedEOF
	}
	return r.err
}

func (r *EventReader) fill() {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.end -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	r.err = err
}

// cutEvent finds the first whole event in b: its data (nil if it has none) and its length. At the end of the
// stream (eof) a single CR ends a line, too. Events of one data line, which servers send, are returned in
// place; others are joined in *joined.
func cutEvent(b []byte, joined *[]byte, eof bool) (data []byte, size int, ok bool) {
	found := 0
	for at := 0; at < len(b); {
		line, next := cutLine(b[at:], eof)
		if next == 0 {
			return nil, 0, false
		}
		at += next
		if len(line) == 0 {
			return data, at, true
		}
		value, isData := dataField(line)
		if !isData {
			continue
		}
		switch found++; found {
		case 1:
			data = value
		case 2:
			*joined = append((*joined)[:0], data...)
			fallthrough
		default:
			*joined = append(append(*joined, '\n'), value...)
			data = *joined
		}
	}
	return nil, 0, false
}

// cutLine returns the first line of b without its line end, and its length with it; 0 if the line end is
// missing. A CR at the very end of b may be half of CR LF, so it waits for the next byte.
func cutLine(b []byte, eof bool) (line []byte, size int) {
	i := bytes.IndexByte(b, '\n')
	before := b // a single CR may end the line earlier
	if i >= 0 {
		before = b[:i]
	}
	if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
		i = cr
	}
	switch {
	case i < 0:
		return nil, 0
	case b[i] == '\n':
		return b[:i], i + 1
	case i+1 < len(b) && b[i+1] == '\n':
		return b[:i], i + 2
	case i+1 < len(b) || eof:
		return b[:i], i + 1
	}
	return nil, 0
}

// dataField returns the value of a data line, which is never nil.
func dataField(line []byte) ([]byte, bool) {
	value, ok := bytes.CutPrefix(line, []byte("data"))
	if !ok || (len(value) > 0 && value[0] != ':') {
		return nil, false
	}
	if len(value) > 0 {
		value = value[1:]
	}
	return bytes.TrimPrefix(value, []byte(" ")), true
}

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

// window is the memory of a reader, in bytes: some tokens with their logprobs. It grows where more has come at once, up to
// wideWindow, and for an event that is longer; it is given up behind one that is longer by far.
const (
	window     = 2 << 10
	wideWindow = 16 << 10
	keptWindow = 32 << 10
)

// EventReader splits a stream of server-sent events into their data. The result does not depend on how the
// bytes were split into reads. Lines may end in LF, CR LF or CR; comments, fields other than data, and events without
// data or with blanks only are skipped.
type EventReader struct {
	src      io.Reader
	maxBytes int

	buf        []byte // the window
	start, end int    // unread bytes are buf[start:end]
	err        error

	joined []byte // data of the last event, if it has several lines

	found     []byte // the next event's data; nil: none was found
	foundSize int
	spare     []byte // memory for its data, like joined
}

// NewEventReader reads events from src. An event whose lines together have more than maximum bytes gives
// [ErrEventTooLong].
func NewEventReader(src io.Reader, maximum int) *EventReader {
	return &EventReader{src: src, maxBytes: maximum, buf: make([]byte, window)}
}

// Next returns the data of the next event, valid until the next call. The error is io.EOF if the stream ended
// between events, io.ErrUnexpectedEOF if it ended inside one, else that of the source.
func (r *EventReader) Next() ([]byte, error) {
	for reads := 0; ; reads++ {
		if r.find(r.err == io.EOF) {
			event := r.found
			r.found, r.start = nil, r.start+r.foundSize
			r.joined, r.spare = r.spare, r.joined
			return event, nil
		}
		if r.end-r.start > r.maxBytes || reads > r.maxBytes { // or a source that returns nothing, for ever
			return nil, ErrEventTooLong
		}
		if r.err != nil {
			return nil, r.ended()
		}
		r.fill()
	}
}

// Buffered reports whether another whole event is available without reading, so that several events may share
// one flush.
func (r *EventReader) Buffered() bool { return r.find(false) }

// find finds the next event in the window, and passes over comments. eof says that nothing more will come.
func (r *EventReader) find(eof bool) bool {
	for r.found == nil && r.start < r.end {
		data, size, ok := cutEvent(r.buf[r.start:r.end], &r.spare, eof)
		if !ok {
			return false
		}
		if data == nil {
			r.start += size
		}
		r.found, r.foundSize = data, size
	}
	return r.found != nil
}

func (r *EventReader) ended() error {
	if r.err == io.EOF && len(bytes.TrimSpace(r.buf[r.start:r.end])) > 0 {
		return io.ErrUnexpectedEOF
	}
	return r.err
}

// fill reads once, behind what was not read yet.
func (r *EventReader) fill() {
	unread := r.buf[r.start:r.end]
	switch {
	case len(unread) == len(r.buf), r.end == len(r.buf) && r.end < wideWindow: // a long event, or many
		r.buf = make([]byte, 2*len(r.buf))
	case len(r.buf) > keptWindow && len(unread) < window:
		r.buf = make([]byte, window)
	}
	r.start, r.end = 0, copy(r.buf, unread)
	n, err := r.src.Read(r.buf[r.end:])
	r.end, r.err = r.end+n, err
}

// cutEvent finds the first whole event in b: its data (nil if it has none but blanks) and its length. At the end of the
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
			if len(bytes.TrimLeft(data, " \t\n")) == 0 {
				data = nil // a sign of life
			}
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

// byteOrderMark may begin a stream or a JSON text, where it has no meaning.
const byteOrderMark = "\ufeff"

// TrimByteOrderMark returns a text of an engine without the byte order mark that some begin with.
func TrimByteOrderMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte(byteOrderMark)) }

// dataField returns the value of a data line, which is never nil.
func dataField(line []byte) ([]byte, bool) {
	value, ok := bytes.CutPrefix(TrimByteOrderMark(line), []byte("data"))
	if !ok || (len(value) > 0 && value[0] != ':') {
		return nil, false
	}
	if len(value) > 0 {
		value = value[1:]
	}
	return TrimByteOrderMark(bytes.TrimPrefix(value, []byte(" "))), true
}

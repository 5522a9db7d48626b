package openai

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a half-open range of byte offsets.
type Span struct{ Start, End int }

// Of returns the bytes of b that the span covers.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// cursor reads one JSON text strictly: duplicate names, invalid UTF-8 and lone surrogates are errors at any depth. It can
// be reset and reused.
type cursor struct {
	dec jsontext.Decoder
	src bytes.Buffer // of the text, which the decoder does not copy
	err error        // the first syntax error; sticky
}

// lenient is for answers of backends: duplicate names are allowed, and the last one counts.
var lenient = jsontext.AllowDuplicateNames(true)

// reset starts at data, which must not change while in use.
func (c *cursor) reset(data []byte, opts ...jsontext.Options) {
	c.src = *bytes.NewBuffer(data)
	c.dec.Reset(&c.src, opts...)
	c.err = nil
}

// resetLenient is reset for answers of backends: see lenient.
func (c *cursor) resetLenient(data []byte) { c.reset(data, lenient) }

// enter reads the opening delimiter of an object or array.
func (c *cursor) enter(open jsontext.Kind) bool {
	if c.kind() != open {
		return false
	}
	c.token()
	return c.err == nil
}

// cursors are reused for later texts: their stacks are most allocations of a scan (BenchmarkRequest).
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// borrowCursor returns a cursor at the start of data; give it back with release.
func borrowCursor(data []byte) *cursor {
	c, _ := cursors.Get().(*cursor)
	c.reset(data)
	return c
}

// release returns the cursor for reuse and drops its data.
func (c *cursor) release() {
	c.reset(nil)
	cursors.Put(c)
}

// object enters the next object and yields the names of its members; the loop's body must read each member's
// value. A value of another kind, such as null, is skipped. A name is valid until the next read.
func (c *cursor) object() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !c.enter('{') {
			c.skip()
			return
		}
		for c.more() {
			quoted, _ := c.value()
			if c.err != nil || !yield(plainName(quoted)) {
				return
			}
		}
	}
}

// array enters the next array and yields the index of each element, which the loop's body must read. A value
// of another kind is skipped.
func (c *cursor) array() iter.Seq[int] {
	return func(yield func(int) bool) {
		if !c.enter('[') {
			c.skip()
			return
		}
		for i := 0; c.more() && yield(i); i++ {
		}
	}
}

// more reports whether the entered object or array has another member; at its end it consumes the closing
// delimiter.
func (c *cursor) more() bool {
	switch c.kind() {
	case 0, '}', ']':
		c.token()
		return false
	}
	return true
}

// token consumes one token.
func (c *cursor) token() {
	if c.err == nil {
		_, err := c.dec.ReadToken()
		c.fail(err)
	}
}

// value reads a whole value of any kind and returns its raw bytes, a part of the text, and span. Where an object has a
// name, it reads the name.
func (c *cursor) value() ([]byte, Span) {
	if c.err != nil {
		return nil, Span{}
	}
	raw, err := c.dec.ReadValue()
	if err != nil {
		c.fail(err)
		return nil, Span{}
	}
	return raw, Span{c.last() - len(raw), c.last()}
}

// last is the end of the last token or value.
func (c *cursor) last() int { return int(c.dec.InputOffset()) }

// skip skips a whole value.
func (c *cursor) skip() { c.value() }

// kind is the kind of the next value, or its closing delimiter, 0 at an error.
func (c *cursor) kind() jsontext.Kind {
	if c.err != nil {
		return 0
	}
	return c.dec.PeekKind()
}

// end checks that only white space follows.
func (c *cursor) end() {
	if c.err != nil {
		return
	}
	switch _, err := c.dec.ReadToken(); {
	case err == nil:
		c.fail(errTrailing)
	case err != io.EOF:
		c.fail(err)
	}
}

// pointer is the location of the last value or name that was read, as a JSON pointer.
func (c *cursor) pointer() string { return string(c.dec.StackPointer()) }

// fail keeps the first error.
func (c *cursor) fail(err error) {
	if err != nil && c.err == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		c.err = err
	}
}

var errTrailing = errors.New("more text after the JSON value")

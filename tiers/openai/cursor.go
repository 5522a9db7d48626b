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

// cursor reads one JSON text with jsontext's strict rules: duplicate names, invalid UTF-8 and lone surrogates
// are errors at any depth. It can be reset and reused without allocations.
type cursor struct {
	dec jsontext.Decoder
	src bytes.Buffer
	err error // the first syntax error; sticky
}

// reset starts at data, which must not change while in use.
func (c *cursor) reset(data []byte) {
	c.src = *bytes.NewBuffer(data)
	c.dec.Reset(&c.src)
	c.err = nil
}

// resetLenient is reset for answers of backends: duplicate names are allowed, and the last one counts.
func (c *cursor) resetLenient(data []byte) {
	c.src = *bytes.NewBuffer(data)
	c.dec.Reset(&c.src, jsontext.AllowDuplicateNames(true))
	c.err = nil
}

// enter reads the opening delimiter of an object or array.
func (c *cursor) enter(open jsontext.Kind) bool {
	if c.err != nil || c.dec.PeekKind() != open {
		return false
	}
	return c.token()
}

// cursors are reused for later requests: the tokenizer's own stacks are 22 of the 28 allocations of a scan
// (BenchmarkScan).
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
	if c.err != nil {
		return false
	}
	switch c.dec.PeekKind() {
	case '}', ']':
		c.token()
		return false
	case 0:
		c.token() // reports the syntax error
		return false
	}
	return true
}

// token consumes one token and reports whether it was well formed.
func (c *cursor) token() bool {
	_, err := c.dec.ReadToken()
	c.fail(err)
	return c.err == nil
}

// value reads a whole value of any kind and returns its raw bytes and span.
func (c *cursor) value() ([]byte, Span) {
	if c.err != nil {
		return nil, Span{}
	}
	v, err := c.dec.ReadValue()
	if c.fail(err); c.err != nil {
		return nil, Span{}
	}
	end := int(c.dec.InputOffset())
	return v, Span{end - len(v), end}
}

// skip skips a whole value.
func (c *cursor) skip() { c.value() }

// kind is the kind of the next value, 0 at an error.
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
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errTrailing
		}
		c.fail(err)
	}
}

func (c *cursor) fail(err error) {
	if err != nil && c.err == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		c.err = err
	}
}

var errTrailing = errors.New("more text after the JSON value")

// plainName returns the text of a quoted name. Names without escapes, which are all relevant ones, cost no
// allocation.
func plainName(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return unquote(nil, quoted)
}

// unquote appends the text of a validated JSON string.
func unquote(dst, quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return append(dst, inner...)
	}
	out, err := jsontext.AppendUnquote(dst, quoted)
	if err != nil {
		return dst
	}
	return out
}

// depthOffset returns the offset at which brackets nest deeper than limit, or -1. It also works on invalid
// JSON and uses no stack.
func depthOffset(body []byte, limit int) int {
	if bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{'['}) <= limit {
		return -1 // too few brackets for that depth
	}
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = stringEnd(body, i)
		case '{', '[':
			if depth++; depth > limit {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// stringEnd returns the offset of the quote that ends the string opened at i, or the last offset if there is
// none.
func stringEnd(body []byte, i int) int {
	for j := i + 1; j < len(body); j++ {
		k := bytes.IndexByte(body[j:], '"')
		if k < 0 {
			break
		}
		j += k
		slashes := 0
		for s := j - 1; s > i && body[s] == '\\'; s-- {
			slashes++
		}
		if slashes%2 == 0 {
			return j
		}
	}
	return len(body) - 1
}

// harmless reports whether the value of a refused field has no effect. Then the field is removed instead.
func harmless(raw []byte) bool {
	switch string(raw) {
	case "null", "false", "[]", "{}", `""`:
		return true
	}
	return false
}

func kindWord(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "malformed"
}

// longestNumber is the maximum length of a number: parsers round longer ones differently.
const longestNumber = 40

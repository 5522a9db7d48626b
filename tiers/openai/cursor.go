package openai

import (
	"bytes"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a half-open range of byte offsets.
type Span struct{ Start, End int }

// Of returns the bytes of b that the span covers.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// cursor reads one JSON text strictly: duplicate names, invalid UTF-8 and lone surrogates are errors at any
// depth, and text is never longer than its grammar allows. It accepts what jsontext accepts (FuzzCursor), and
// reads long strings several times faster (BenchmarkBodyScan). It can be reset and reused without allocations.
type cursor struct {
	data      []byte
	at        int        // the next byte that was not read
	last      int        // the end of the last token or value
	frames    []frame    // the open objects and arrays, the innermost last
	names     [][]byte   // of members of the open objects, to find duplicates
	long      []longText // long strings that were read, if notesLong
	notesLong bool
	lenient   bool  // duplicate names are allowed
	maxDepth  int   // of nested objects and arrays
	err       error // the first syntax error; sticky
}

// frame is an open object or array.
type frame struct {
	object bool
	named  bool                // of an object: a name was read, and its value comes next
	begun  int                 // number of its members or elements
	first  int                 // index of its first name in cursor.names
	many   map[string]struct{} // its names, if they are too many to compare each with each
	name   []byte              // of its last member
}

const (
	deepest  = 10_000 // default of cursor.maxDepth; jsontext has the same
	fewNames = 32     // names of an object that are compared each with each
)

// reset starts at data, which must not change while in use.
func (c *cursor) reset(data []byte) {
	c.data, c.at, c.last = data, 0, 0
	c.frames, c.names, c.long = c.frames[:0], c.names[:0], c.long[:0]
	c.lenient, c.notesLong, c.maxDepth, c.err = false, false, deepest, nil
}

// resetLenient is reset for answers of backends: duplicate names are allowed, and the last one counts.
func (c *cursor) resetLenient(data []byte) {
	c.reset(data)
	c.lenient = true
}

// enter reads the opening delimiter of an object or array.
func (c *cursor) enter(open jsontext.Kind) bool {
	if c.kind() != open {
		return false
	}
	c.begin()
	return c.push(byte(open))
}

// cursors are reused for later requests: their stacks are most allocations of a scan (BenchmarkScan).
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// borrowCursor returns a cursor at the start of data; give it back with release.
func borrowCursor(data []byte) *cursor {
	c, _ := cursors.Get().(*cursor)
	c.reset(data)
	return c
}

// release returns the cursor for reuse and drops its data.
func (c *cursor) release() {
	const most = 512 // entries of a stack; larger ones are not kept
	if cap(c.frames) > most || cap(c.names) > most || cap(c.long) > most {
		return
	}
	c.reset(nil)
	clear(c.frames[:cap(c.frames)])
	clear(c.names[:cap(c.names)])
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
	if c.err != nil || len(c.frames) == 0 {
		return false
	}
	f := &c.frames[len(c.frames)-1]
	next := c.next()
	if next == ']' && !f.object || next == '}' && f.object {
		c.at++
		c.last = c.at
		c.names = c.names[:min(f.first, len(c.names))]
		c.frames = c.frames[:len(c.frames)-1]
		return false
	}
	if f.begun > 0 {
		if next != ',' {
			return c.malformed()
		}
		c.at++
		next = c.next()
	}
	if kindOf[next] == 0 || next == ']' || next == '}' {
		return c.malformed()
	}
	return true
}

// token consumes one token and reports whether it was well formed.
func (c *cursor) token() bool {
	if k := c.kind(); k == '{' || k == '[' {
		return c.enter(k)
	}
	c.value()
	return c.err == nil
}

// value reads a whole value of any kind and returns its raw bytes and span. Where an object has a name, it
// reads the name.
func (c *cursor) value() ([]byte, Span) {
	if c.err != nil {
		return nil, Span{}
	}
	next := c.next()
	start := c.at
	if c.naming() {
		c.readName(next)
	} else {
		c.begin()
		c.readValue(next)
	}
	if c.err != nil {
		return nil, Span{}
	}
	at := Span{start, c.last}
	return at.Of(c.data), at
}

// skip skips a whole value.
func (c *cursor) skip() { c.value() }

// kind is the kind of the next value, 0 at an error.
func (c *cursor) kind() jsontext.Kind {
	if c.err != nil {
		return 0
	}
	return kindOf[c.next()]
}

// end checks that only white space follows.
func (c *cursor) end() {
	if c.next(); c.err == nil && (c.at < len(c.data) || len(c.frames) > 0) {
		c.malformed()
	}
}

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

package openai

import (
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a half-open range of byte offsets.
type Span struct{ Start, End int }

// Of returns the bytes of b that the span covers.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }

// cursor reads one JSON text strictly: duplicate names, invalid UTF-8 and lone surrogates are errors at any
// depth, and text is never longer than its grammar allows. It accepts what jsontext accepts (FuzzCursor), and
// reads long strings several times faster (BenchmarkScan). It can be reset and reused without allocations.
type cursor struct {
	data     []byte
	at       int      // the next byte that was not read
	last     int      // the end of the last token or value
	frames   []frame  // the open objects and arrays, the innermost last
	names    [][]byte // of members of the open objects, to find duplicates
	lenient  bool     // duplicate names are allowed
	maxDepth int      // of nested objects and arrays
	err      error    // the first syntax error; sticky
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
	c.frames, c.names = c.frames[:0], c.names[:0]
	c.lenient, c.maxDepth, c.err = false, deepest, nil
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
	if c.forget() {
		cursors.Put(c)
	}
}

// forget drops the cursor's data, and reports whether its stacks are small enough to be kept for later.
func (c *cursor) forget() bool {
	const most = 512 // entries of a stack
	if cap(c.frames) > most || cap(c.names) > most {
		return false
	}
	c.reset(nil)
	clear(c.frames[:cap(c.frames)])
	clear(c.names[:cap(c.names)])
	return true
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

// token consumes one token.
func (c *cursor) token() {
	if k := c.kind(); k == '{' || k == '[' {
		c.enter(k)
		return
	}
	c.value()
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

// next skips white space and returns the next byte, 0 at the end. A 0 in the text is no white space either.
func (c *cursor) next() byte {
	for ; c.at < len(c.data); c.at++ {
		if b := c.data[c.at]; b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return b
		}
	}
	return 0
}

// naming reports whether the name of a member comes next.
func (c *cursor) naming() bool {
	if len(c.frames) == 0 {
		return false
	}
	f := &c.frames[len(c.frames)-1]
	return f.object && !f.named
}

// begin records that a value comes next.
func (c *cursor) begin() {
	if len(c.frames) == 0 {
		return
	}
	if f := &c.frames[len(c.frames)-1]; f.object {
		f.named = false
	} else {
		f.begun++
	}
}

// push reads an opening delimiter.
func (c *cursor) push(open byte) bool {
	if len(c.frames) >= c.maxDepth {
		return c.malformed()
	}
	c.at++
	c.last = c.at
	c.frames = append(c.frames, frame{object: open == '{', first: len(c.names)})
	return true
}

// readValue reads a value that begins with next.
func (c *cursor) readValue(next byte) {
	if next != '{' && next != '[' {
		c.readScalar(next)
		return
	}
	outside := len(c.frames)
	for c.push(next); len(c.frames) > outside && c.err == nil; {
		if !c.more() {
			continue
		}
		if c.naming() && !c.readName(c.next()) {
			return
		}
		next = c.next()
		c.begin()
		if next == '{' || next == '[' {
			c.push(next)
		} else {
			c.readScalar(next)
		}
	}
}

// readName reads the name of a member and its colon.
func (c *cursor) readName(next byte) bool {
	if next != '"' {
		return c.malformed()
	}
	t := readText(c.data, c.at+1)
	if t.end < 0 {
		return c.malformed()
	}
	name := c.data[c.at+1 : t.end]
	if t.escaped {
		name = unquote(nil, c.data[c.at:t.end+1])
	}
	f := &c.frames[len(c.frames)-1]
	if !c.lenient && !c.unused(f, name) {
		return c.malformed()
	}
	f.name, f.named = name, true
	f.begun++
	c.at = t.end + 1
	c.last = c.at
	if c.next() != ':' {
		return c.malformed()
	}
	c.at++
	return true
}

// unused reports whether an object does not have a name yet, and records it.
func (c *cursor) unused(f *frame, name []byte) bool {
	if f.many != nil {
		before := len(f.many)
		f.many[string(name)] = struct{}{}
		return len(f.many) > before
	}
	earlier := c.names[f.first:]
	for _, e := range earlier {
		if string(e) == string(name) {
			return false
		}
	}
	c.names = append(c.names, name)
	if len(earlier) == fewNames {
		f.many = make(map[string]struct{}, 2*fewNames)
		for _, e := range c.names[f.first:] {
			f.many[string(e)] = struct{}{}
		}
		c.names = c.names[:f.first]
	}
	return true
}

func (c *cursor) readScalar(next byte) {
	var end int
	switch next {
	case '"':
		if end = readText(c.data, c.at+1).end; end >= 0 {
			end++
		}
	case 't':
		end = c.literal("true")
	case 'f':
		end = c.literal("false")
	case 'n':
		end = c.literal("null")
	default:
		end = numberEnd(c.data, c.at)
	}
	if end < 0 {
		c.malformed()
		return
	}
	c.at, c.last = end, end
}

// literal returns the end of a word that comes next, −1 if it does not.
func (c *cursor) literal(word string) int {
	end := c.at + len(word)
	if end > len(c.data) || string(c.data[c.at:end]) != word {
		return -1
	}
	return end
}

// pointer is the location of the last value or name that was read, as a JSON pointer.
func (c *cursor) pointer() string {
	var b strings.Builder
	for i := range c.frames {
		switch f := &c.frames[i]; {
		case f.begun == 0:
		case f.object:
			b.WriteByte('/')
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(string(f.name)))
		default:
			b.WriteByte('/')
			b.WriteString(strconv.Itoa(f.begun - 1))
		}
	}
	return b.String()
}

// fail keeps the first error.
func (c *cursor) fail(err error) {
	if err != nil && c.err == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		c.err = err
	}
}

// malformed records that the text is not valid; jsontext says what is wrong. It returns false.
func (c *cursor) malformed() bool {
	if c.err == nil {
		c.fail(explain(c.data, jsontext.AllowDuplicateNames(c.lenient)))
	}
	return false
}

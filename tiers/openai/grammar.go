package openai

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// kindOf is the kind of a value, or the closing delimiter, that begins with a byte; 0 for none.
var kindOf = func() (kinds [256]jsontext.Kind) {
	for _, b := range []byte(`{}[]"tfn`) {
		kinds[b] = jsontext.Kind(b)
	}
	for _, b := range []byte("-0123456789") {
		kinds[b] = '0'
	}
	return kinds
}()

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
	end := -1
	switch next {
	case '"':
		t := readText(c.data, c.at+1)
		if t.end-c.at >= minLong && c.notesLong {
			c.long = append(c.long, longText{c.at, t})
		}
		if end = t.end; end >= 0 {
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

// numberEnd returns the end of a number that begins at i, −1 if it is none.
func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digitsEnd(b, i)
	if whole == i || whole > i+1 && b[i] == '0' {
		return -1
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		if whole = digitsEnd(b, i+1); whole == i+1 {
			return -1
		}
		i = whole
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if whole = digitsEnd(b, i); whole == i {
			return -1
		}
		i = whole
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
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

// explain returns the error of a text that is not valid.
func explain(data []byte, opts ...jsontext.Options) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), opts...)
	for complete := false; ; complete = dec.StackDepth() == 0 {
		_, err := dec.ReadToken()
		switch {
		case complete && errors.Is(err, io.EOF):
			return errTooDeep // nothing else is wrong
		case err != nil:
			return err
		case complete:
			return errTrailing
		}
	}
}

var (
	errTrailing = errors.New("more text after the JSON value")
	errTooDeep  = errors.New("the JSON value nests too deep")
)

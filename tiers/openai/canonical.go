package openai

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Ephemeral are the fields that do not change the content of an answer.
var Ephemeral = []string{"stream", "stream_options", "user"}

// readByName is the number of levels of objects in a field whose members engines read by name, so that their
// order has no meaning. Below these levels, and in other fields, the order is kept: templates print the
// parameters of a tool and documents in their order, and a constrained answer has the order of its schema.
// The levels are those of vLLM's request classes.
var readByName = map[string]int{
	"messages":           2, // the message; its parts and calls
	"tools":              2, // the tool; its function, whose parameters are a schema
	"functions":          1,
	"tool_choice":        2,
	"response_format":    2, // the format; json_schema, which holds a schema
	"structured_outputs": 1,
	"logit_bias":         1,
}

// errCanonical means that the body has changed since it was scanned.
var errCanonical = errors.New("the request's body is not what was scanned")

// Canonical appends everything in the request that decides the answer: all members of the body except those
// of [Ephemeral] and those that are not forwarded, sorted by name, as JSON without white space. Equal bytes
// mean requests that no engine can distinguish. White space, escapes, the notation of fractions and the order
// of members that are read by name make no difference. Integers keep all their digits, and 1 differs from
// 1.0. It fails only if the body was changed after the scan.
func (r *Request) Canonical(dst []byte) ([]byte, error) {
	var c canon
	if !c.request(r) {
		return dst, errCanonical
	}
	before := dst
	dst = append(dst, '{')
	for i := range c.pieces {
		if dst = c.append(dst, i); dst == nil {
			return before, errCanonical
		}
	}
	return append(dst, '}'), nil
}

// canon finds the pieces of a validated body of which the canonical form consists. Nearly all of them are
// bytes of the body, so that the form itself need not be written. Its methods report whether the text has the
// expected form.
type canon struct {
	src    []byte
	at     int        // the next byte of src
	long   []longText // strings of src from at on that need not be read
	pieces []piece    // of the canonical form so far
	joined int        // index of the first piece that may be extended

	order []*member
	parts []part // members of the objects that are being sorted, the innermost object last
	spare []piece
}

// piece is a piece of the canonical form.
type piece struct {
	span Span // of src
	form form
}

// form is what the canonical form has for a span.
type form uint8

const (
	asIs   form = iota
	comma       // a comma; the span is empty
	quoted      // the string with the escapes that quote writes
	double      // the number as a double
)

// part is a member of an object: its name and its pieces.
type part struct {
	name     []byte
	from, to int
}

// request finds the pieces of a request.
func (c *canon) request(r *Request) bool {
	c.src, c.pieces, c.order, c.joined = r.Body, c.pieces[:0], c.order[:0], 0
	for i := range r.members {
		if m := &r.members[i]; !m.drop && !slices.Contains(Ephemeral, m.name) {
			c.order = append(c.order, m)
		}
	}
	slices.SortFunc(c.order, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	for i, m := range c.order {
		if i > 0 {
			c.pieces = append(c.pieces, piece{form: comma})
		}
		c.at = m.whole.Start
		c.long = longFrom(r.long, c.at)
		if !c.text() || !c.take(':') || c.at > m.value.Start || !c.value(readByName[m.name]) || c.at != m.value.End {
			return false
		}
	}
	return true
}

// next skips white space and returns the next byte, 0 at the end.
func (c *canon) next() byte {
	for ; c.at < len(c.src); c.at++ {
		switch b := c.src[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// emit adds the bytes up to end as a piece, or to the last one.
func (c *canon) emit(end int, f form) {
	if n := len(c.pieces); f == asIs && n > c.joined && c.pieces[n-1].form == asIs && c.pieces[n-1].span.End == c.at {
		c.pieces[n-1].span.End = end
	} else {
		c.pieces = append(c.pieces, piece{Span{c.at, end}, f})
	}
	c.at = end
}

// take consumes one byte of the structure.
func (c *canon) take(want byte) bool {
	if c.next() != want {
		return false
	}
	c.emit(c.at+1, asIs)
	return true
}

// value reads a value; objects are sorted up to this number of levels.
func (c *canon) value(levels int) bool {
	switch c.next() {
	case '{':
		return c.object(levels)
	case '[':
		return c.array(levels)
	case '"':
		return c.text()
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	return c.number()
}

func (c *canon) literal(word string) bool {
	if !bytes.HasPrefix(c.src[c.at:], []byte(word)) {
		return false
	}
	c.emit(c.at+len(word), asIs)
	return true
}

func (c *canon) array(levels int) bool {
	if !c.take('[') {
		return false
	}
	for first := true; c.next() != ']'; first = false {
		if !first && !c.take(',') || !c.value(levels) {
			return false
		}
	}
	return c.take(']')
}

func (c *canon) object(levels int) bool {
	if levels > 0 {
		return c.sorted(levels)
	}
	if !c.take('{') {
		return false
	}
	for first := true; c.next() != '}'; first = false {
		if !first && !c.take(',') || c.next() != '"' || !c.text() || !c.take(':') || !c.value(0) {
			return false
		}
	}
	return c.take('}')
}

// sorted reads an object and sorts its members by name.
func (c *canon) sorted(levels int) bool {
	if !c.take('{') {
		return false
	}
	from, base := len(c.pieces), len(c.parts)
	for first := true; c.next() != '}'; first = false {
		if !first {
			if c.next() != ',' {
				return false
			}
			c.at++
		}
		if c.next() != '"' {
			return false
		}
		p, start := part{from: len(c.pieces)}, c.at
		c.joined = p.from
		if !c.text() {
			return false
		}
		p.name = plainName(c.src[start:c.at])
		if !c.take(':') || !c.value(levels-1) {
			return false
		}
		p.to = len(c.pieces)
		c.parts = append(c.parts, p)
	}
	c.sort(from, base)
	c.joined = len(c.pieces)
	return c.take('}')
}

// sort sorts the members from piece from on, which are those from base on of the parts, by name, and puts
// commas between them. All names are different.
func (c *canon) sort(from, base int) {
	parts := c.parts[base:]
	slices.SortFunc(parts, func(a, b part) int { return bytes.Compare(a.name, b.name) })
	c.spare = append(c.spare[:0], c.pieces[from:]...)
	c.pieces = c.pieces[:from]
	for i, p := range parts {
		if i > 0 {
			c.pieces = append(c.pieces, piece{form: comma})
		}
		c.pieces = append(c.pieces, c.spare[p.from-from:p.to-from]...)
	}
	c.parts = c.parts[:base]
}

// text reads a string. Most strings are canonical; a long one was found by the scan.
func (c *canon) text() bool {
	for len(c.long) > 0 && c.long[0].start < c.at {
		c.long = c.long[1:]
	}
	var t text
	if len(c.long) > 0 && c.long[0].start == c.at {
		t = c.long[0].text
	} else {
		t = readText(c.src, c.at+1)
	}
	if t.end < 0 {
		return false
	}
	if t.longer {
		c.emit(t.end+1, quoted)
	} else {
		c.emit(t.end+1, asIs)
	}
	return true
}

// number reads a number. One with a fraction or an exponent is a double in every parser. It gets the shortest
// notation of that double with an exponent, which no integer has. A number out of a double's range is kept
// unchanged.
func (c *canon) number() bool {
	end := numberEnd(c.src, c.at)
	if end < 0 {
		return false
	}
	f := asIs
	if bytes.ContainsAny(c.src[c.at:end], ".eE") {
		f = double
	}
	c.emit(end, f)
	return true
}

// append appends piece i, and returns nil if it is not of its form.
func (c *canon) append(dst []byte, i int) []byte {
	p := c.pieces[i]
	raw := p.span.Of(c.src)
	switch p.form {
	case comma:
		return append(dst, ',')
	case quoted:
		return quote(dst, unquote(nil, raw))
	case double:
		v, err := strconv.ParseFloat(string(raw), 64)
		switch {
		case err == nil:
			return strconv.AppendFloat(dst, v, 'e', -1, 64)
		case !errors.Is(err, strconv.ErrRange):
			return nil
		}
	}
	return append(dst, raw...)
}

package openai

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	const usual = 16 // typical number of members; more need an allocation
	order := make([]*member, 0, usual)
	for i := range r.members {
		if m := &r.members[i]; !m.drop && !slices.Contains(Ephemeral, m.name) {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	c := canon{src: r.Body, dst: append(dst, '{')}
	for i, m := range order {
		if i > 0 {
			c.dst = append(c.dst, ',')
		}
		c.dst = append(quote(c.dst, m.name), ':')
		c.at = m.value.Start
		if !c.value(readByName[m.name]) || c.at != m.value.End {
			return dst, errCanonical
		}
	}
	return append(c.dst, '}'), nil
}

// canon copies validated JSON and rewrites it. Its methods report whether the text has the expected form.
type canon struct {
	src []byte
	at  int // the next byte of src
	dst []byte

	parts []part // members of the objects that are being sorted, the innermost object last
	spare []byte
}

// part is the position of a member in dst.
type part struct{ start, colon, end int }

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

// take consumes one byte of the structure and copies it.
func (c *canon) take(want byte) bool {
	if c.next() != want {
		return false
	}
	c.at++
	c.dst = append(c.dst, want)
	return true
}

// value copies a value; objects are sorted up to this number of levels.
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
	c.at += len(word)
	c.dst = append(c.dst, word...)
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
	if !c.take('{') {
		return false
	}
	from, base := len(c.dst), len(c.parts)
	for first := true; c.next() != '}'; first = false {
		if !first && !c.take(',') || c.next() != '"' {
			return false
		}
		start := len(c.dst)
		if !c.text() {
			return false
		}
		colon := len(c.dst)
		if !c.take(':') || !c.value(levels-1) {
			return false
		}
		if levels > 0 {
			c.parts = append(c.parts, part{start, colon, len(c.dst)})
		}
	}
	c.sort(from, base)
	return c.take('}')
}

// sort sorts the members at offset from of dst, which are those from base on of the parts, by name. Any order
// that depends only on the names would do; all names are different.
func (c *canon) sort(from, base int) {
	parts := c.parts[base:]
	byName := func(a, b part) int { return bytes.Compare(c.dst[a.start:a.colon], c.dst[b.start:b.colon]) }
	if !slices.IsSortedFunc(parts, byName) {
		slices.SortFunc(parts, byName)
		c.spare = append(c.spare[:0], c.dst[from:]...)
		c.dst = c.dst[:from]
		for i, p := range parts {
			if i > 0 {
				c.dst = append(c.dst, ',')
			}
			c.dst = append(c.dst, c.spare[p.start-from:p.end-from]...)
		}
	}
	c.parts = c.parts[:base]
}

func (c *canon) text() bool {
	end := stringEnd(c.src, c.at)
	if end <= c.at || c.src[end] != '"' {
		return false
	}
	quoted := c.src[c.at : end+1]
	c.at = end + 1
	if shortEscapes(quoted) {
		c.dst = append(c.dst, quoted...)
		return true
	}
	var err error
	if c.spare, err = jsontext.AppendUnquote(c.spare[:0], quoted); err != nil {
		return false
	}
	c.dst = quote(c.dst, c.spare)
	return true
}

// shortEscapes reports whether a quoted string has only escapes that quote would also write: the two-byte
// escapes of characters that need one.
func shortEscapes(quoted []byte) bool {
	for rest := quoted; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			return true
		}
		if strings.IndexByte(`"\bfnrt`, rest[i+1]) < 0 {
			return false
		}
		rest = rest[i+2:]
	}
}

// number copies a number. One with a fraction or an exponent is a double in every parser. It gets the
// shortest notation of that double with an exponent, which no integer has. A number out of a double's range
// is copied unchanged.
func (c *canon) number() bool {
	start := c.at
	for c.at < len(c.src) && strings.IndexByte("+-.0123456789Ee", c.src[c.at]) >= 0 {
		c.at++
	}
	digits := c.src[start:c.at]
	if !bytes.ContainsAny(digits, ".eE") {
		c.dst = append(c.dst, digits...)
		return len(digits) > 0
	}
	v, err := strconv.ParseFloat(string(digits), 64)
	if err != nil { // it is valid JSON, so it is out of a double's range
		c.dst = append(c.dst, digits...)
		return errors.Is(err, strconv.ErrRange)
	}
	c.dst = strconv.AppendFloat(c.dst, v, 'e', -1, 64)
	return true
}

package openai

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Ephemeral are the fields that do not change what an answer says.
var Ephemeral = []string{"stream", "stream_options", "user"}

// readByName tells how many levels of objects in a field engines read by the members'
// names, so that the members' order means nothing. Below, and in fields that are not here, the order is kept:
// templates print the parameters of a tool and documents as they stand, and a constrained answer has
// the members of its schema in the schema's order. The levels are those of vLLM's request classes.
var readByName = map[string]int{
	"messages":           2, // the message; its parts and calls
	"tools":              2, // the tool; its function, whose parameters are a schema
	"functions":          1,
	"tool_choice":        2,
	"response_format":    2, // the format; json_schema, which holds a schema
	"structured_outputs": 1,
	"logit_bias":         1,
}

// errCanonical is returned for a request that does not hold what was scanned.
var errCanonical = errors.New("the request's body is not what was scanned")

// Canonical appends what of the request decides the answer: every member of the body but those of
// [Ephemeral] and the ones that are not sent on, sorted by name, as JSON without white space. Equal bytes
// mean requests that no engine can tell apart. White space, escapes, the spelling of
// fractions and the order of members that are read by name make no difference; whole numbers
// keep all their digits, and 1 is not 1.0. It fails only if the body was changed since it was scanned.
func (r *Request) Canonical(dst []byte) ([]byte, error) {
	const usual = 16 // members of a request; more cost an allocation
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

// canon copies JSON that was validated and rewrites it on the way. Its methods report
// whether the text was as they expect.
type canon struct {
	src []byte
	at  int // the next byte of src
	dst []byte

	parts []part // members of the objects that are being sorted, the innermost last
	spare []byte
}

// part is a member as it stands in dst.
type part struct{ start, colon, end int }

// next passes over white space and returns the byte behind it, 0 at the end.
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

// value copies a value; so many levels of objects in it are sorted.
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

// sort puts the members from offset from of dst on, which are those from base on of the parts, in the
// order of their names. Any order would do that depends on the names alone, which are all different.
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

// shortEscapes reports whether a quoted string has only escapes that quote would write, too: the two-byte ones
// of characters that need one.
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

// number copies a number. One with a fraction or an exponent is a double to everybody, and gets the
// shortest spelling of that double with an exponent, which no whole number has; one that is no double stays
// as it is.
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
	if err != nil { // as JSON it is a number, so it is out of a double's range
		c.dst = append(c.dst, digits...)
		return errors.Is(err, strconv.ErrRange)
	}
	c.dst = strconv.AppendFloat(c.dst, v, 'e', -1, 64)
	return true
}

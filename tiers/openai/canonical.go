package openai

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// digestContext separates digests from other hashes, and from digests of another canonical form.
const digestContext = "foregate 2026-11 request in canonical form, 2\n"

// Digest is a SHA-256 hash of the request's canonical form ([Request.Canonical]). Equal digests mean requests that
// no engine can distinguish. It fails only if the body was changed after the scan.
func (r *Request) Digest() (sum [32]byte, err error) {
	room, _ := formRoom.Get().(*[]byte)
	defer formRoom.Put(room)
	form, err := r.Canonical(append((*room)[:0], digestContext...))
	if err == nil {
		sum = sha256.Sum256(form)
	}
	if cap(form) <= keptForm {
		*room = form
	}
	return sum, err
}

// formRoom is memory for canonical forms, kept up to a size.
var formRoom = sync.Pool{New: func() any { return new([]byte) }}

const keptForm = 512 << 10

// Canonical appends everything in the request that decides the answer: all members of the body except those
// of [Ephemeral] and those that are not forwarded, sorted by name, as JSON without white space. Equal bytes
// mean requests that no engine can distinguish. White space, escapes, the notation of fractions and the order
// of members that are read by name make no difference. Integers keep all their digits, and 1 differs from
// 1.0. It fails only if the body was changed after the scan.
func (r *Request) Canonical(dst []byte) ([]byte, error) {
	before := dst
	order := make([]*member, 0, 16)
	for i := range r.members {
		if m := &r.members[i]; !m.drop && !slices.Contains(Ephemeral, m.name) {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	f := former{dst: append(dst, '{')}
	for i, m := range order {
		f.separate(i)
		f.dst = append(AppendQuote(f.dst, m.name), ':')
		f.src, f.at = m.value.Of(r.Body), 0
		f.value(readByName[m.name])
		if f.changed || f.at != len(f.src) {
			return before, errCanonical
		}
	}
	return append(f.dst, '}'), nil
}

// former writes JSON in canonical form. Scan has checked the JSON, so quotes, brackets and commas tell where its values end.
type former struct {
	dst     []byte
	src     []byte
	at      int  // the next byte of src
	changed bool // src is not what was checked
}

// next returns the first byte of what comes next. Commas and colons are passed over like white space.
func (f *former) next() byte {
	for ; f.at < len(f.src); f.at++ {
		switch b := f.src[f.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return b
		}
	}
	f.changed = true
	return 0
}

// separate appends a comma before all members and elements but the first.
func (f *former) separate(i int) {
	if i > 0 {
		f.dst = append(f.dst, ',')
	}
}

// value appends the next value; the members of objects are sorted up to this number of levels.
func (f *former) value(levels int) {
	switch f.next() {
	case '{':
		f.object(levels)
	case '[':
		f.at++
		f.dst = append(f.dst, '[')
		for i := 0; f.next() != ']' && !f.changed; i++ {
			f.separate(i)
			f.value(levels)
		}
		f.at++
		f.dst = append(f.dst, ']')
	case '"':
		f.text()
	case 0:
	default:
		f.scalar()
	}
}

// text appends the next string with the escapes that [AppendQuote] writes.
func (f *former) text() {
	from, end := f.at, stringEnd(f.src, f.at)
	if f.at = end + 1; end == len(f.src) || f.src[from] != '"' {
		f.changed = true
		return
	}
	raw := f.src[from:f.at]
	if bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\/`)) { // all other escapes have one form
		f.dst = AppendQuote(f.dst, unquote(nil, raw))
		return
	}
	f.dst = append(f.dst, raw...)
}

// scalar appends the next number or literal.
func (f *former) scalar() {
	from := f.at
	for f.at++; f.at < len(f.src) && strings.IndexByte(",:]} \t\r\n", f.src[f.at]) < 0; {
		f.at++
	}
	raw := f.src[from:f.at]
	if c := raw[0]; (c == '-' || c <= '9') && bytes.ContainsAny(raw, ".eE") {
		f.dst = appendFraction(f.dst, raw)
	} else {
		f.dst = append(f.dst, raw...)
	}
}

// appendFraction appends a number with a fraction or an exponent, which is a double in every parser: in the
// shortest notation of that double with an exponent, which no integer has. A number out of a double's range is kept
// unchanged.
func appendFraction(dst, raw []byte) []byte {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return append(dst, raw...)
	}
	return strconv.AppendFloat(dst, v, 'e', -1, 64)
}

// part is where a member of an object that is being sorted is in the form.
type part struct{ from, to int }

func (f *former) object(levels int) {
	f.at++
	f.dst = append(f.dst, '{')
	parts := make([]part, 0, 8)
	from := len(f.dst)
	for i := 0; f.next() != '}' && !f.changed; i++ {
		f.separate(i)
		began := len(f.dst)
		f.text()
		f.dst = append(f.dst, ':')
		f.value(max(levels-1, 0))
		if levels > 0 {
			parts = append(parts, part{began, len(f.dst)})
		}
	}
	f.at++
	byName := func(a, b part) int { return bytes.Compare(f.dst[a.from:a.to], f.dst[b.from:b.to]) } // all names are different
	if !slices.IsSortedFunc(parts, byName) {
		slices.SortFunc(parts, byName)
		to := len(f.dst)
		f.dst = append(f.dst, f.dst[from:]...) // the members are put in order from behind where they stand
		unsorted := f.dst[to:]
		f.dst = f.dst[:from]
		for i, p := range parts {
			f.separate(i)
			f.dst = append(f.dst, unsorted[p.from-from:p.to-from]...)
		}
	}
	f.dst = append(f.dst, '}')
}

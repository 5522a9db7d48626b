package openai

import (
	"bytes"
	"crypto/sha256"
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

// digestContext separates digests from other hashes, and from digests of another canonical form.
const digestContext = "foregate 2026-11 request in canonical form, 2\n"

// Digest is a SHA-256 hash of the request's canonical form ([Request.Canonical]). Equal digests mean requests that
// no engine can distinguish. It fails only if the body was changed after the scan.
func (r *Request) Digest() (sum [32]byte, err error) {
	form, err := r.Canonical(append(make([]byte, 0, len(r.Body)+len(digestContext)), digestContext...))
	if err == nil {
		sum = sha256.Sum256(form)
	}
	return sum, err
}

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
	in := borrowCursor(nil)
	defer in.release()
	dst = append(dst, '{')
	for i, m := range order {
		if i > 0 {
			dst = append(dst, ',')
		}
		in.reset(m.value.Of(r.Body))
		dst = canonicalValue(append(AppendQuote(dst, m.name), ':'), in, readByName[m.name])
		if in.end(); in.err != nil {
			return before, errCanonical
		}
	}
	return append(dst, '}'), nil
}

// canonicalValue appends the next value; the members of objects are sorted up to this number of levels.
func canonicalValue(dst []byte, in *cursor, levels int) []byte {
	switch in.kind() {
	case '{':
		return canonicalObject(dst, in, levels)
	case '[':
		dst = append(dst, '[')
		for i := range in.array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonicalValue(dst, in, levels)
		}
		return append(dst, ']')
	}
	raw, _ := in.value()
	switch {
	case len(raw) == 0: // an error
	case raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0:
		return AppendQuote(dst, unquote(nil, raw))
	case bytes.ContainsAny(raw, ".eE"):
		return canonicalFraction(dst, raw)
	}
	return append(dst, raw...)
}

// canonicalFraction appends a number with a fraction or an exponent, which is a double in every parser: in the
// shortest notation of that double with an exponent, which no integer has. A number out of a double's range is kept
// unchanged.
func canonicalFraction(dst, raw []byte) []byte {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return append(dst, raw...)
	}
	return strconv.AppendFloat(dst, v, 'e', -1, 64)
}

// part is where a member of an object that is being sorted is in the form.
type part struct{ from, to int }

func canonicalObject(dst []byte, in *cursor, levels int) []byte {
	dst = append(dst, '{')
	parts := make([]part, 0, 8)
	from := len(dst)
	for name := range in.object() {
		if len(dst) > from {
			dst = append(dst, ',')
		}
		began := len(dst)
		dst = canonicalValue(append(AppendQuote(dst, name), ':'), in, max(levels-1, 0))
		if levels > 0 {
			parts = append(parts, part{began, len(dst)})
		}
	}
	byName := func(a, b part) int { return bytes.Compare(dst[a.from:a.to], dst[b.from:b.to]) } // all names are different
	if !slices.IsSortedFunc(parts, byName) {
		unsorted := slices.Clone(dst[from:])
		slices.SortFunc(parts, byName)
		dst = dst[:from]
		for i, p := range parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, unsorted[p.from-from:p.to-from]...)
		}
	}
	return append(dst, '}')
}

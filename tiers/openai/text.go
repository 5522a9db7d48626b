package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// text is what was read of a JSON string.
type text struct {
	end     int  // offset of the closing quote, −1 if the string is not valid
	escaped bool // it has escapes
	longer  bool // among them some that quote does not write
}

// readText reads the string whose first byte, after the quote, is at i: it must be UTF-8 without control
// characters, and its escapes valid.
func readText(b []byte, i int) (t text) {
	for i < len(b) {
		if i += plainRun(b[i:]); i == len(b) {
			break
		}
		size := -1
		switch c := b[i]; {
		case c == '"':
			t.end = i
			return t
		case c == '\\':
			var longer bool
			size, longer = escapeSize(b[i:])
			t.escaped, t.longer = true, t.longer || longer
		case c >= utf8.RuneSelf:
			if r, n := utf8.DecodeRune(b[i:]); r != utf8.RuneError || n > 1 {
				size = n
			}
		}
		if size < 0 {
			break
		}
		i += size
	}
	return text{end: -1}
}

// escapeSize returns the length of the escape that b begins with, −1 if it is not valid. longer: quote would not write it.
func escapeSize(b []byte) (size int, longer bool) {
	if len(b) < 2 {
		return -1, false
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2, false
	case '/':
		return 2, true
	case 'u':
		r, n := hex4(b), 6
		if utf16.IsSurrogate(r) {
			r, n = utf16.DecodeRune(r, hex4(b[6:])), 12
			if r == utf8.RuneError {
				return -1, false
			}
		}
		if r >= 0 {
			return n, true
		}
	}
	return -1, false
}

// hex4 returns the number of an escape such as \u00e9 at the beginning of b, −1 if there is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(r)
}

// Quote returns text as a JSON string.
func Quote(text string) []byte { return quote(make([]byte, 0, len(text)+2), text) }

// AppendQuote appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, text string) []byte { return quote(dst, text) }

// quote appends text as a JSON string. Invalid UTF-8 becomes U+FFFD. Most characters need no escape; they are
// copied in runs.
func quote[T ~[]byte | ~string](dst []byte, text T) []byte {
	dst = append(dst, '"')
	for {
		n := plainRun(text)
		dst = append(dst, text[:n]...)
		if n == len(text) {
			return append(dst, '"')
		}
		escape := byte('n')
		switch text[n] {
		case '\n':
		case '"', '\\':
			escape = text[n]
		default:
			return quoteRest(dst, text[n:])
		}
		dst = append(dst, '\\', escape)
		text = text[n+1:]
	}
}

// quoteRest completes a string that has begun, with the rest of its text.
func quoteRest[T ~[]byte | ~string](dst []byte, text T) []byte {
	at := len(dst)
	dst, _ = jsontext.AppendQuote(dst, text) // the error only reports replaced bytes
	copy(dst[at:], dst[at+1:])               // without its opening quote
	return dst[:len(dst)-1]
}

// plainRun is the number of leading bytes of text that are ASCII and need no escape. It checks eight bytes at
// a time: each term sets the highest bit of a byte that is not plain, and possibly of bytes after such a one.
func plainRun[T ~[]byte | ~string](text T) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		t := text[i : i+8]
		x := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		quotes, slashes := x^each*'"', x^each*'\\'
		if odd := (x | (x - each*' ') | (quotes - each) | (slashes - each)) & high; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for ; i < len(text); i++ {
		if b := text[i]; b < ' ' || b == '"' || b == '\\' || b >= 0x80 {
			break
		}
	}
	return i
}

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

// digitsEnd returns the end of the digits from i on.
func digitsEnd(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
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

// Members returns the members of a JSON object by their names. The values are parts of raw, not copies. ok is false if raw is
// anything else. Of a name that comes twice the last member counts.
func Members(raw []byte) (members map[string]json.RawMessage, ok bool) {
	c := borrowCursor(nil)
	defer c.release()
	c.resetLenient(raw)
	if c.kind() != '{' {
		return nil, false
	}
	members = map[string]json.RawMessage{}
	for name := range c.object() {
		key := string(name) // it is valid until the next read
		value, _ := c.value()
		members[key] = value
	}
	c.end()
	return members, c.err == nil
}

// Elements returns the elements of a JSON array. They are parts of raw, not copies. ok is false if raw is anything else.
func Elements(raw []byte) (elements []json.RawMessage, ok bool) {
	c := borrowCursor(nil)
	defer c.release()
	c.resetLenient(raw)
	if c.kind() != '[' {
		return nil, false
	}
	for range c.array() {
		value, _ := c.value()
		elements = append(elements, value)
	}
	c.end()
	return elements, c.err == nil
}

package openai

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// letters are the letters and digits of ASCII.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Quote returns text as a JSON string.
func Quote[T ~[]byte | ~string](text T) []byte { return AppendQuote(nil, text) }

// AppendQuote appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendQuote[T ~[]byte | ~string](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // the error only reports replaced bytes
	return dst
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

// stringEnd returns the offset of the quote that ends the string opened at i, or the length of body if there is none.
func stringEnd(body []byte, i int) int {
	for j := i + 1; ; {
		k := bytes.IndexByte(body[j:], '"')
		if k < 0 {
			return len(body)
		}
		before := body[i+1 : j+k]
		if j += k + 1; (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 0 {
			return j - 1
		}
	}
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

package openai

import (
	"bytes"
	"errors"
	"io"

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

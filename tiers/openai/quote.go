package openai

import (
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

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

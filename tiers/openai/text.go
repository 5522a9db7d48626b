package openai

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// text is what was read of a JSON string.
type text struct {
	end     int  // offset of the closing quote, −1 if the string is not valid
	escaped bool // it has escapes
	longer  bool // among them some that quote does not write
}

// longText is a long string that a scan found, so that it need not be read again.
type longText struct {
	start int // offset of the opening quote
	text
}

// minLong is the length from which on a string is remembered, in bytes: fewer take more time to find than to
// read (BenchmarkBodyDigest).
const minLong = 256

// longFrom returns the strings from an offset on.
func longFrom(long []longText, at int) []longText {
	i, _ := slices.BinarySearchFunc(long, at, func(l longText, at int) int { return l.start - at })
	return long[i:]
}

// readText reads the string whose first byte, after the quote, is at i: it must be UTF-8 without control
// characters, and its escapes valid. Plain ASCII is read 32 bytes at a time (BenchmarkBodyScan).
func readText(b []byte, i int) (t text) {
	for i < len(b) {
		switch next := b[i]; {
		case next == '"':
			t.end = i
			return t
		case next == '\\':
			end, longer := escapeEnd(b, i)
			if end < 0 {
				return text{end: -1}
			}
			t.escaped, t.longer = true, t.longer || longer
			i = end
		case next < ' ':
			return text{end: -1}
		case next >= utf8.RuneSelf:
			if i = foreignEnd(b, i); i < 0 {
				return text{end: -1}
			}
		default:
			i = plainEnd(b, i)
		}
	}
	return text{end: -1}
}

const eachByte, highBits = 0x0101010101010101, 0x8080808080808080

// unusual sets the highest bit of each byte that ends a run of plain text: not ASCII, a control character, a
// quote or a backslash. Bytes after such a one may be set, too.
func unusual(x uint64) uint64 {
	quotes, slashes := x^eachByte*'"', x^eachByte*'\\'
	return x | (x - eachByte*' ') | (quotes - eachByte) | (slashes - eachByte)
}

// plainEnd returns the offset of the first byte from i on that is not ASCII, or needs an escape.
func plainEnd(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		s := b[i : i+32 : i+32]
		w0, w1 := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
		w2, w3 := binary.LittleEndian.Uint64(s[16:]), binary.LittleEndian.Uint64(s[24:])
		w0, w1, w2, w3 = unusual(w0), unusual(w1), unusual(w2), unusual(w3)
		if (w0|w1|w2|w3)&highBits == 0 {
			continue
		}
		switch {
		case w0&highBits != 0:
			return i + bits.TrailingZeros64(w0&highBits)/8
		case w1&highBits != 0:
			return i + 8 + bits.TrailingZeros64(w1&highBits)/8
		case w2&highBits != 0:
			return i + 16 + bits.TrailingZeros64(w2&highBits)/8
		}
		return i + 24 + bits.TrailingZeros64(w3&highBits)/8
	}
	for ; i+8 <= len(b); i += 8 {
		if odd := unusual(binary.LittleEndian.Uint64(b[i:])) & highBits; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// eight are the highest bits of the eight bytes of x, the first byte's in the lowest bit.
func eight(x uint64) uint32 {
	return uint32((x & highBits >> 7) * 0x0102040810204080 >> 56)
}

// foreignEnd returns the end of the characters from i on that are not ASCII, −1 if they are not UTF-8.
func foreignEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= utf8.RuneSelf {
		switch s := b[i:]; {
		case s[0] >= 0xc2 && s[0] < 0xe0 && len(s) > 1 && s[1]&0xc0 == 0x80:
			i += 2
		case s[0] > 0xe0 && s[0] < 0xf0 && s[0] != 0xed && len(s) > 2 && s[1]&0xc0 == 0x80 && s[2]&0xc0 == 0x80:
			i += 3
		default:
			_, n := utf8.DecodeRune(s)
			if n == 1 {
				return -1
			}
			i += n
		}
	}
	return i
}

// escapeEnd returns the end of the escape at i, −1 if it is not valid. longer: quote would not write it.
func escapeEnd(b []byte, i int) (end int, longer bool) {
	if i+1 >= len(b) {
		return -1, false
	}
	switch b[i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2, false
	case '/':
		return i + 2, true
	case 'u':
	default:
		return -1, false
	}
	r := hex4(b, i+2)
	if !utf16.IsSurrogate(r) {
		if r < 0 {
			return -1, false
		}
		return i + 6, true
	}
	if i+8 > len(b) || b[i+6] != '\\' || b[i+7] != 'u' {
		return -1, false
	}
	if low := hex4(b, i+8); low < 0 || utf16.DecodeRune(r, low) == utf8.RuneError {
		return -1, false
	}
	return i + 12, true
}

// hex4 returns the number of four hexadecimal digits at i, −1 if they are not.
func hex4(b []byte, i int) (r rune) {
	if i+4 > len(b) {
		return -1
	}
	for _, d := range b[i : i+4] {
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

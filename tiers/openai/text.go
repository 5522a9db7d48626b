package openai

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// text is what was read of a JSON string.
type text struct {
	end     int  // offset of the closing quote, −1 if the string is not valid
	escaped bool // it has escapes
	longer  bool // among them some that quote does not write
}

// readText reads the string whose first byte, after the quote, is at i: it must be UTF-8 without control
// characters, and its escapes valid. It looks at blocks of 32 bytes, and then only at those that are not plain
// (BenchmarkScan).
func readText(b []byte, i int) (t text) {
	for i+block <= len(b) {
		s := b[i : i+block : i+block]
		w0, w1 := odd(binary.LittleEndian.Uint64(s)), odd(binary.LittleEndian.Uint64(s[8:]))
		w2, w3 := odd(binary.LittleEndian.Uint64(s[16:])), odd(binary.LittleEndian.Uint64(s[24:]))
		next := i + block
		if (w0|w1|w2|w3)&highBits == 0 {
			i = next
			continue
		}
		for mask := eight(w0) | eight(w1)<<8 | eight(w2)<<16 | eight(w3)<<24; mask != 0; {
			at := i + bits.TrailingZeros32(mask)
			end := at + 2
			if b[at] == '\\' && end <= len(b) && shortEscapes[b[at+1]] {
				t.escaped = true
			} else {
				var over bool
				if end, over = t.read(b, at); over {
					return t
				}
			}
			if end >= next {
				next = end
				break
			}
			mask &= ^uint32(0) << (uint(end-i) % block)
		}
		i = next
	}
	for i < len(b) {
		end, over := t.read(b, i)
		if over {
			return t
		}
		i = end
	}
	return text{end: -1}
}

// read reads a character or an escape at i, and returns its end. over means that the string has ended, or is
// not valid; then t.end says so.
func (t *text) read(b []byte, i int) (end int, over bool) {
	switch c := b[i]; {
	case c == '\\':
		var longer bool
		end, longer = escapeEnd(b, i)
		t.escaped, t.longer = true, t.longer || longer
	case c >= utf8.RuneSelf:
		end = foreignEnd(b, i)
	case c == '"':
		t.end = i
		return i, true
	case c < ' ':
		end = -1
	default:
		return i + 1, false
	}
	if end < 0 {
		*t = text{end: -1}
	}
	return end, end < 0
}

const (
	block = 32 // bytes

	eachByte, highBits = 0x0101010101010101, 0x8080808080808080
)

// odd sets the highest bit of each byte that is not plain: not ASCII, a control character, a quote or a
// backslash. Bytes after such a one may be set, too.
func odd(x uint64) uint64 {
	quotes, slashes := x^eachByte*'"', x^eachByte*'\\'
	return x | (x - eachByte*' ') | (quotes - eachByte) | (slashes - eachByte)
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

// shortEscapes are the characters that quote writes with a backslash before them, or their letters.
var shortEscapes = [256]bool{'"': true, '\\': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escapeEnd returns the end of the escape at i, −1 if it is not valid. longer: quote would not write it.
func escapeEnd(b []byte, i int) (end int, longer bool) {
	if i+1 >= len(b) {
		return -1, false
	}
	switch next := b[i+1]; {
	case shortEscapes[next]:
		return i + 2, false
	case next == '/':
		return i + 2, true
	case next != 'u':
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

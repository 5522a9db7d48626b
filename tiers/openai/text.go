package openai

import (
	"strconv"
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

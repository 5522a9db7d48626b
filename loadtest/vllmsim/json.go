package vllmsim

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as JSON as Python's json does with ensure_ascii off: only quotes, backslashes and control
// characters are escaped.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			if c < utf8.RuneSelf {
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscaped(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	}
	if c >= utf8.RuneSelf {
		return append(dst, "\uFFFD"...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendFloat appends v as Python's repr does: always with a point or an exponent.
func appendFloat(dst []byte, v float64) []byte {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, format, -1, 64)
	if format == 'f' && !strings.Contains(string(dst[n:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendIDs appends ids as a JSON array.
func appendIDs(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		dst = appendComma(dst, i)
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// appendStopReason appends null, a stop string or a stop token id.
func appendStopReason(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendQuoted(dst, v)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return append(dst, "null"...)
}

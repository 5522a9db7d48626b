// Package words judges words that others wrote, and makes them fit for logs, labels and terminals.
package words

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Only reports whether s is letters and digits of ASCII and the marks given.
func Only(s, marks string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
}

// IsName reports whether s is 1 to maxLen letters, digits and the marks given: with . _ : and - it has no special meaning in a label,
// a log line, a header or a Redis key.
func IsName(s string, maxLen int, marks string) bool {
	return s != "" && len(s) <= maxLen && Only(s, marks)
}

// IsHost reports whether s is an IP address or has the form of a host name; it may end with a dot.
func IsHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return IsName(s, 253, ".-_") && s[0] != '-' && s[0] != '.' && !strings.Contains(s, "..")
}

// Printable replaces what is no printable text by question marks.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Clip makes s printable, and of at most maxLen bytes.
func Clip(s string, maxLen int) string {
	const mark = "…"
	s = Printable(s)
	if len(s) <= maxLen {
		return s
	}
	cut := maxLen - len(mark)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

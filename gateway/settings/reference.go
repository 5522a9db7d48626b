package settings

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown bounds how much of a foreign name or value is shown.
const maxShown = 64

// show makes foreign text safe for a log field, a label and a terminal: printable, valid UTF-8, at most
// maxShown bytes.
func show(s string) string { return showTo(s, maxShown) }

// showTo is show with another limit in bytes.
func showTo(s string, maxLen int) string {
	const mark = "…"
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxLen {
		return s
	}
	cut := maxLen - len(mark)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// showValue is show for a value. A value that is too long to be read is not shown: how much of it is
// available depends on how it was read.
func showValue(s string) string {
	if len(s) > maxValue {
		return "…"
	}
	return show(s)
}

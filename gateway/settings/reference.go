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
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) <= maxLen {
			b.WriteRune(r)
			continue
		}
		kept := b.String()
		for len(kept) > maxLen-len(mark) {
			_, last := utf8.DecodeLastRuneInString(kept)
			kept = kept[:len(kept)-last]
		}
		return kept + mark
	}
	return b.String()
}

// showValue is show for a value. A value that is too long to be read is not shown: how much of it is
// available depends on how it was read.
func showValue(s string) string {
	if len(s) > maxValue {
		return "…"
	}
	return show(s)
}

// reasonUnknown is the reason for a name that does not exist.
const reasonUnknown = "unknown setting"

package draft

import (
	"bytes"
	"unicode/utf8"
)

// stopStrings finds stop strings in a growing text. The gateway matches them itself,
// because an engine that continues a prefix does not see a stop string that
// began in it, and because an engine that matches holds text back, so that ids and text
// would not end at the same place.
type stopStrings struct {
	words   [][]byte
	longest int
	scanned int // bytes known not to hold the end of a match
}

func newStopStrings(words []string) stopStrings {
	var s stopStrings
	for _, w := range words {
		s.words = append(s.words, []byte(w))
		s.longest = max(s.longest, len(w))
	}
	return s
}

// find returns the earliest match that ends beyond what was scanned before, as
// its start and end in text; start is -1 when there is none.
func (s *stopStrings) find(text []byte) (start, end int) {
	start = -1
	from := max(s.scanned-s.longest+1, 0)
	for _, w := range s.words {
		if i := bytes.Index(text[from:], w); i >= 0 && (start < 0 || from+i < start) {
			start, end = from+i, from+i+len(w)
		}
	}
	s.scanned = len(text)
	return start, end
}

// rewind forgets what was scanned behind a cut.
func (s *stopStrings) rewind(to int) { s.scanned = min(s.scanned, to) }

// safe is how much of text may be released: all but what might be the start of
// a stop string, cut back to a whole character.
func (s *stopStrings) safe(text []byte) int {
	if s.longest == 0 {
		return len(text)
	}
	n := len(text)
	for back := min(s.longest-1, n); back > 0; back-- {
		if s.begins(text[n-back:]) {
			n -= back
			break
		}
	}
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// begins reports whether tail is the beginning of a stop string.
func (s *stopStrings) begins(tail []byte) bool {
	for _, w := range s.words {
		if len(tail) < len(w) && bytes.HasPrefix(w, tail) {
			return true
		}
	}
	return false
}

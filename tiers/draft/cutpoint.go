package draft

import (
	"sort"
	"strings"
)

// CutPoint is a position in the answer between two chunks, or between two tokens of one, with what came before it. The
// zero value is the beginning.
type CutPoint struct {
	Tokens   int  // tokens of the answer before it
	Text     int  // bytes of text
	IDs      int  // ids; fewer than Tokens if a backend left some out or they were dropped
	Clean    bool // the text ends at a token's end
	Sentence bool // the text ends a sentence or a line
}

// cutPoints are the cut points of one answer in order.
type cutPoints []CutPoint

// tokens returns the tokens of so many bytes of text, as [Transcript.Tokens] does.
func (cs cutPoints) tokens(text int) (n int, exact bool) {
	if text == 0 || len(cs) == 0 {
		return 0, true
	}
	i := sort.Search(len(cs)-1, func(i int) bool { return cs[i].Text >= text })
	if n = cs[i].Tokens; cs[i].Text <= text {
		return n, true
	}
	before := 0
	if i > 0 {
		before = cs[i-1].Tokens
	}
	return min(n, before+1), n <= before+1
}

// until returns the cut points up to an offset of the text.
func (cs cutPoints) until(text int) cutPoints {
	n := len(cs)
	for n > 0 && cs[n-1].Text > text {
		n--
	}
	return cs[:n]
}

// endsSentence reports whether text ends a sentence or a line.
func endsSentence(text []byte) bool {
	return len(text) > 0 && strings.IndexByte(".!?\n", text[len(text)-1]) >= 0
}

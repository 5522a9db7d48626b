package transcript

import (
	"sort"
	"strings"
)

// maxSentenceTokens is how far a cut may go back, in tokens, to end at a sentence or a line.
const maxSentenceTokens = 32

// CutPoint is a place in the answer between two chunks, or between two tokens of one: what came
// before it. The zero value is the beginning.
type CutPoint struct {
	Tokens   int  // tokens of the answer before it
	Text     int  // bytes of text
	IDs      int  // ids; fewer than the tokens where a backend left some out, or where they were forgotten
	Clean    bool // the text ends where the tokens do
	Sentence bool // the text ends a sentence or a line
}

// Mark notes the end of the answer so far as a cut point: it has so many tokens, and it is clean where
// its text ends where they do.
func (t *Transcript) Mark(tokens int, clean bool) CutPoint {
	c := CutPoint{Tokens: tokens, Text: len(t.text), IDs: len(t.ids), Clean: clean, Sentence: endsSentence(t.text)}
	t.cuts = append(t.cuts, c)
	return c
}

// MarkWithin notes where the tokens end that the last chunk consists of, but for its last, so that a cut by
// text can count what it keeps. The answer has so many tokens with them, sizes are their bytes: they are the
// last bytes of the text, and there is an id for each. A continuation by ids falls between chunks only, so
// none of them is clean.
func (t *Transcript) MarkWithin(tokens int, sizes []int) {
	size := 0
	for _, n := range sizes {
		size += n
	}
	n := len(sizes)
	c := CutPoint{Tokens: tokens - n, Text: len(t.text) - size, IDs: len(t.ids) - n}
	for i := range n - 1 {
		c.Tokens, c.Text, c.IDs = c.Tokens+1, c.Text+sizes[i], c.IDs+1
		t.cuts = append(t.cuts, c)
	}
}

// End notes the end of the text as the last cut point, which has so many tokens and no ids: the place from which
// a continuation by text goes on.
func (t *Transcript) End(tokens int) CutPoint {
	c := CutPoint{Tokens: tokens, Text: len(t.text)}
	t.forget(c.Text)
	t.cuts = append(t.cuts, c)
	return c
}

// CutAt is the last clean cut point of at most so many tokens; none is the zero CutPoint.
func (t *Transcript) CutAt(tokens int) CutPoint {
	for i := len(t.cuts) - 1; i >= 0; i-- {
		if c := t.cuts[i]; c.Clean && c.Tokens <= tokens && c.Text <= len(t.text) {
			return c
		}
	}
	return CutPoint{}
}

// CutAtSentence is CutAt, or the last clean cut point at most 32 tokens before it at which a sentence or a line ends.
func (t *Transcript) CutAtSentence(tokens int) CutPoint {
	at := t.CutAt(tokens)
	for i := len(t.cuts) - 1; i >= 0; i-- {
		c := t.cuts[i]
		switch {
		case c.Tokens > at.Tokens || !c.Clean || c.Text > len(t.text):
			continue
		case c.Tokens < at.Tokens-maxSentenceTokens:
			return at
		case c.Sentence && c.Tokens > 0:
			return c
		}
	}
	return at
}

// Tokens counts the tokens that the text came from. One of which only a part is in it counts: it was paid for,
// and it was shown. Where the text ends within a chunk of several tokens, n is the fewest that it can be, and
// exact is false.
func (t *Transcript) Tokens() (n int, exact bool) {
	text := len(t.text)
	if text == 0 || len(t.cuts) == 0 {
		return 0, true
	}
	i := sort.Search(len(t.cuts)-1, func(i int) bool { return t.cuts[i].Text >= text })
	if n = t.cuts[i].Tokens; t.cuts[i].Text <= text {
		return n, true
	}
	before := 0
	if i > 0 {
		before = t.cuts[i-1].Tokens
	}
	return min(n, before+1), n <= before+1
}

// TellsAll reports whether the ids of the prompt and those of the answer are known up to a cut point at which the
// answer ends, so that an engine can go on from them.
func (t *Transcript) TellsAll(at CutPoint) bool {
	return len(t.promptIDs) > 0 && at.IDs > 0 && at.IDs == len(t.ids) && at.IDs == at.Tokens && at.Clean
}

// forget drops the cut points behind an offset of the text. Those behind the end of a text that was cut
// stay until more is appended: they say how many tokens the text may have.
func (t *Transcript) forget(text int) {
	for n := len(t.cuts); n > 0 && t.cuts[n-1].Text > text; n-- {
		t.cuts = t.cuts[:n-1]
	}
}

// endsSentence reports whether text ends a sentence or a line.
func endsSentence(text []byte) bool {
	return len(text) > 0 && strings.IndexByte(".!?\n", text[len(text)-1]) >= 0
}

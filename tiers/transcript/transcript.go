// Package transcript keeps what is known of one answer while it is made: its text, the ids of prompt
// and answer, where it may be cut, its stop strings, what the client already has, and what must be
// written again after a rewind. Start at [New].
//
// These rules hold after every call, in whatever order the calls come (a test walks at random):
//
//   - The client has the first Sent bytes of the text. No byte is handed out twice, and none that was
//     handed out is taken back: a rewind behind it leaves a pending match, and text that does not repeat
//     what is pending is refused with [ErrMismatch].
//   - Without a pending match the client has no more than the text; with one, no more than the text
//     with what is pending behind it.
//   - At a clean cut point ids and text are in step: the ids before it are the text before it, or where ids
//     were forgotten the end of that text.
//
// It is a function of what it is told: there is no clock, no network, no log.
package transcript

import (
	"bytes"
	"errors"
	"math"
	"unicode"
	"unicode/utf8"
)

const (
	// maxWordBytes is how many bytes are held back at most to end at a whole word.
	maxWordBytes = 48
	// unbounded lets all text be sent that stop strings allow.
	unbounded = math.MaxInt
)

// ErrMismatch says that what was appended does not repeat what the client already has.
var ErrMismatch = errors.New("the text after a rewind is not what was sent before")

// Options say how an answer begins and what ends it. The zero value is an empty answer without stop strings.
type Options struct {
	Stop        []string // stop strings
	IncludeStop bool     // the one that ends the answer is part of it
	WholeWords  bool     // only whole words are released, until Resume: a continuation by text starts behind one

	Text []byte // of the answer that is there already
	Sent int    // bytes of Text that the client has
}

// Transcript is the state of one answer. It is for one goroutine. Slices that its methods return are
// its own: they are to be read only, and before the next call.
type Transcript struct {
	text       []byte // of the answer, as far as it was accepted
	sent       int    // bytes of it that the client has
	bound      int    // bytes of it that may be sent
	wholeWords bool

	expected []byte // the text before a rewind, which text must become again; nil where nothing is pending
	rewound  int    // bytes of text that the rewind left

	promptIDs []int32
	ids       []int32
	cuts      cutPoints

	stops       stopStrings
	includeStop bool
	stopped     bool   // a stop string ended the text
	stop        []byte // that one
	stopEnd     int    // bytes of text up to its end
}

// New returns the transcript of an answer.
func New(o Options) *Transcript {
	return &Transcript{
		text: bytes.Clone(o.Text), sent: min(o.Sent, len(o.Text)), bound: unbounded, wholeWords: o.WholeWords,
		stops: newStopStrings(o.Stop), includeStop: o.IncludeStop,
	}
}

// Text is the answer so far.
func (t *Transcript) Text() []byte { return t.text }

// TextWithStop is the answer so far with the stop string that ended it.
func (t *Transcript) TextWithStop() []byte {
	if !t.stopped || t.includeStop {
		return t.text
	}
	return append(bytes.Clone(t.text), t.stop...)
}

// Len is the length of the text in bytes.
func (t *Transcript) Len() int { return len(t.text) }

// Sent is how many bytes of the answer the client has.
func (t *Transcript) Sent() int { return t.sent }

// Pending reports whether text must be written again that the client has.
func (t *Transcript) Pending() bool { return len(t.expected) > len(t.text) }

// Stop is the stop string that ended the answer, and where it ended, in bytes of the text that was
// appended; ok is false where none did.
func (t *Transcript) Stop() (word []byte, end int, ok bool) { return t.stop, t.stopEnd, t.stopped }

// PromptIDs are the ids of the prompt, nil where they are not known.
func (t *Transcript) PromptIDs() []int32 { return t.promptIDs }

// IDs are the ids of the answer since its beginning, or since they were last forgotten. Where a stop
// string ended the text they go on behind it.
func (t *Transcript) IDs() []int32 { return t.ids }

// AppendPrompt adds ids of the prompt.
func (t *Transcript) AppendPrompt(ids []int32) { t.promptIDs = append(t.promptIDs, ids...) }

// Append adds a chunk's text and ids, and reports whether a stop string ended the answer with it; behind
// one nothing more is added. The error is [ErrMismatch], and nothing was added then.
func (t *Transcript) Append(text []byte, ids []int32) (stopped bool, err error) {
	if t.stopped {
		return true, nil
	}
	if t.Pending() {
		due := t.expected[len(t.text):]
		if n := min(len(due), len(text)); !bytes.Equal(due[:n], text[:n]) {
			return false, ErrMismatch
		}
	}
	t.cuts = t.cuts.until(len(t.text))
	t.text, t.ids = append(t.text, text...), append(t.ids, ids...)
	if !t.Pending() {
		t.expected = nil
	}
	if len(t.stops.words) == 0 || len(text) == 0 {
		return false, nil
	}
	start, end := t.stops.find(t.text)
	if start < 0 {
		return false, nil
	}
	t.stopped, t.stop, t.stopEnd = true, append(t.stop[:0], t.text[start:end]...), end
	if t.includeStop {
		start = end
	}
	t.text = t.text[:min(max(start, t.sent), len(t.text))] // what was sent stays
	t.cuts = t.cuts.until(len(t.text))
	return true, nil
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
	t.cuts = append(t.cuts.until(c.Text), c)
	return c
}

// CutAt is the last clean cut point of at most so many tokens; none is the zero CutPoint.
func (t *Transcript) CutAt(tokens int) CutPoint { return t.cuts.at(tokens, len(t.text)) }

// CutAtSentence is CutAt, or the last clean cut point at most 32 tokens before it at which a sentence or a line ends.
func (t *Transcript) CutAtSentence(tokens int) CutPoint {
	return t.cuts.atSentence(tokens, len(t.text))
}

// Tokens counts the tokens that the text came from. One of which only a part is in it counts: it was paid for,
// and it was shown. Where the text ends within a chunk of several tokens, n is the fewest that it can be, and
// exact is false.
func (t *Transcript) Tokens() (n int, exact bool) { return t.cuts.tokens(len(t.text)) }

// TellsAll reports whether the ids of the prompt and those of the answer are known up to a cut point at which the
// answer ends, so that an engine can go on from them.
func (t *Transcript) TellsAll(at CutPoint) bool {
	return len(t.promptIDs) > 0 && at.IDs > 0 && at.IDs == len(t.ids) && at.IDs == at.Tokens && at.Clean
}

// Rewind takes the answer back to a cut point. What the client has behind it must be written again: a
// stop string that begins within a token lets a part of that be sent, and nobody goes on from there by ids.
func (t *Transcript) Rewind(to CutPoint) {
	t.restore()
	t.cut(max(to.Text, t.sent))
	if to.Text < t.sent {
		t.rewindTo(to.Text)
	}
	t.ids = t.ids[:min(to.IDs, len(t.ids))]
	for i, c := range t.cuts {
		if c.IDs > len(t.ids) && c.Text <= len(t.text) { // the same text with more ids
			t.cuts[i].IDs, t.cuts[i].Clean = 0, false
		}
	}
}

// RewindToWord takes back the last word of what there is, for another backend to write it again, whether the
// client has it or not: an engine that holds text back for stop strings may have stopped within a token,
// and nobody goes on well from there. The ids are forgotten.
func (t *Transcript) RewindToWord() {
	t.restore()
	t.rewindTo(t.releasable(true))
	t.forgetIDs()
}

// Undo gives up a pending match: the answer is again what it was before the rewind, without ids.
func (t *Transcript) Undo() {
	if !t.Pending() {
		return
	}
	t.cut(t.rewound)
	t.cuts = t.cuts.until(len(t.text))
	t.restore()
	t.forgetIDs()
}

// EndAtWord prepares a continuation by text. What the client does not have ends at a whole word, so
// that the target chooses its own next token there, unless a match is pending; the ids are forgotten. It returns how many
// tokens the text has, as Tokens does.
func (t *Transcript) EndAtWord() (tokens int, exact bool) {
	t.wholeWords = true
	if !t.Pending() {
		t.cut(max(t.releasable(true), t.sent))
	}
	t.forgetIDs()
	return t.Tokens()
}

// Adopt takes other ids for the first so many bytes of the text, and returns the cut point at which they end: the
// answer is to be rewound to it. It is the only clean one; the others still tell how many tokens the text has.
func (t *Transcript) Adopt(promptIDs, ids []int32, text int) CutPoint {
	t.forgetIDs()
	for i := range t.cuts {
		t.cuts[i].Clean = false
	}
	t.promptIDs = append(t.promptIDs[:0], promptIDs...)
	t.ids = append(t.ids, ids...)
	return CutPoint{Tokens: len(ids), Text: min(text, len(t.text)), IDs: len(ids), Clean: true}
}

// Resume notes from where the answer is carried on: cut points behind it are forgotten, and all
// that comes may be released.
func (t *Transcript) Resume(at CutPoint) {
	t.cuts = append(t.cuts.until(at.Text), at)
	t.wholeWords, t.bound = false, unbounded
}

// Release hands out what may be sent now and was not sent before, and notes that the client has it. It is nil while
// a match is pending.
func (t *Transcript) Release() []byte {
	upTo := t.releasable(t.wholeWords)
	if t.Pending() || upTo <= t.sent {
		return nil
	}
	p := t.text[t.sent:upTo]
	t.sent = upTo
	return p
}

// ReleaseTo is Release as far as a cut point; what is behind it stays here until the next ReleaseTo or Resume.
func (t *Transcript) ReleaseTo(at CutPoint) []byte {
	t.bound = at.Text
	return t.Release()
}

// Rest hands out all that the client does not have of an answer that is over. It is nil while a match is pending.
func (t *Transcript) Rest() []byte {
	if t.Pending() {
		return nil
	}
	p := t.text[t.sent:]
	t.sent = len(t.text)
	return p
}

// releasable is how many bytes the client may have: as far as the bound, no beginning of a stop string, and
// where whole words are wanted nothing behind the last of them.
func (t *Transcript) releasable(wholeWords bool) int {
	upTo := min(t.stops.safe(t.text), t.bound)
	if !wholeWords {
		return upTo
	}
	tail := max(upTo-maxWordBytes, 0)
	for tail > 0 && !utf8.RuneStart(t.text[tail]) {
		tail--
	}
	word := bytes.LastIndexFunc(t.text[tail:upTo], unicode.IsSpace)
	if word < 0 {
		return tail // no spaces, as in Chinese: some characters are held back instead
	}
	return len(bytes.TrimRightFunc(t.text[:tail+word], unicode.IsSpace))
}

// rewindTo cuts the text, and expects what is behind the cut to come again.
func (t *Transcript) rewindTo(text int) {
	t.expected, t.rewound = bytes.Clone(t.text), text
	t.cut(text)
}

// restore makes the text what it was before a rewind whose match is pending. It is a prefix of that until then.
func (t *Transcript) restore() {
	if t.Pending() {
		t.text = append(t.text, t.expected[len(t.text):]...)
	}
	t.expected = nil
}

// cut drops the text behind an offset, and the stop string that ended it. The cut points behind it stay until more
// is appended: they say how many tokens the text may have.
func (t *Transcript) cut(to int) {
	t.text = t.text[:min(to, len(t.text))]
	t.stopped, t.stop = false, t.stop[:0]
	t.stops.rewind(len(t.text))
}

// forgetIDs forgets the answer's ids: those that come are not all of them.
func (t *Transcript) forgetIDs() {
	t.ids = t.ids[:0]
	for i := range t.cuts {
		t.cuts[i].IDs = 0
	}
}

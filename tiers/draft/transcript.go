package draft

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxWordBytes bounds the bytes that are held back to end at a whole word.
	maxWordBytes = 48
	// firstRoom is for how many tokens an answer has room from its first chunk on. Growing from nothing takes 20 steps to so
	// many, a tenth of what a drafted answer allocates.
	firstRoom = 64
	// unbounded allows all text to be sent that stop strings allow.
	unbounded = math.MaxInt
)

// ErrMismatch says that appended text does not repeat what the client already has.
var ErrMismatch = errors.New("the text after a rewind is not what was sent before")

// TranscriptOptions describe the beginning and the end of an answer. The zero value is an empty answer without stop strings.
type TranscriptOptions struct {
	Stop        []string // stop strings
	IncludeStop bool     // the stop string that ends the answer is part of it
	WholeWords  bool     // only whole words are released, until Resume: a continuation by text starts behind one

	Text []byte // existing beginning of the answer
	Sent int    // bytes of Text that the client has
}

// Transcript is the state of one answer: its text, the ids of prompt and answer, its cut points and stop strings, what the
// client already has, and what a backend must repeat after a rewind. It is for one goroutine. Returned slices are for
// reading only and valid until the next call.
//
// These rules hold after every call, in any order of calls (a test walks at random):
//
//   - The client has the first Sent bytes of the text. No byte is released twice, and none is retracted: a rewind
//     behind it leaves a pending match, and text that does not repeat it is refused with [ErrMismatch].
//   - Without a pending match the client has no more than the text; with one, no more than the text followed by
//     the pending text.
//   - At a clean cut point ids and text agree: the ids before it are the text before it, or, if ids were dropped,
//     the end of that text.
type Transcript struct {
	text       []byte // accepted text of the answer
	sent       int    // bytes of it that the client has
	bound      int    // bytes of it that may be sent
	wholeWords bool

	expected []byte // the text before a rewind, which must be repeated; nil: nothing is pending
	rewound  int    // bytes of text that the rewind left

	promptIDs []int32
	ids       []int32
	cuts      cutPoints

	stops       stopStrings
	includeStop bool
	stopped     bool   // a stop string ended the text
	stop        []byte // the stop string
	stopEnd     int    // bytes of text up to its end
}

// NewTranscript returns the transcript of an answer.
func NewTranscript(o TranscriptOptions) *Transcript {
	return &Transcript{
		text: bytes.Clone(o.Text), sent: min(o.Sent, len(o.Text)), bound: unbounded, wholeWords: o.WholeWords,
		stops: newStopStrings(o.Stop), includeStop: o.IncludeStop,
	}
}

// Text returns the answer so far.
func (t *Transcript) Text() []byte { return t.text }

// TextWithStop returns the answer so far with the stop string that ended it.
func (t *Transcript) TextWithStop() []byte {
	if !t.stopped || t.includeStop {
		return t.text
	}
	return append(bytes.Clone(t.text), t.stop...)
}

// Len returns the length of the text in bytes.
func (t *Transcript) Len() int { return len(t.text) }

// Pending reports whether text that the client has must be repeated.
func (t *Transcript) Pending() bool { return len(t.expected) > len(t.text) }

// Stop returns the stop string that ended the answer, and its end in bytes of the appended text; ok is false if there is
// none.
func (t *Transcript) Stop() (word []byte, end int, ok bool) { return t.stop, t.stopEnd, t.stopped }

// PromptIDs returns the ids of the prompt, nil if unknown.
func (t *Transcript) PromptIDs() []int32 { return t.promptIDs }

// IDs returns the ids of the answer since its beginning, or since they were last dropped. They include ids after a stop
// string.
func (t *Transcript) IDs() []int32 { return t.ids }

// AppendPrompt adds ids of the prompt.
func (t *Transcript) AppendPrompt(ids []int32) { t.promptIDs = append(t.promptIDs, ids...) }

// Append adds a chunk's text and ids, and reports whether a stop string ended the answer; nothing is added after one. On
// [ErrMismatch] nothing was added.
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
	if t.text == nil {
		t.text, t.ids, t.cuts = make([]byte, 0, 4*firstRoom), slices.Grow(t.ids, firstRoom), slices.Grow(t.cuts, firstRoom/2)
	}
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
	t.text = t.text[:min(max(start, t.sent), len(t.text))] // sent text stays
	t.cuts = t.cuts.until(len(t.text))
	return true, nil
}

// Mark adds a cut point at the end of the answer. tokens counts the answer; clean says that the text ends at a token's
// end.
func (t *Transcript) Mark(tokens int, clean bool) CutPoint {
	c := CutPoint{Tokens: tokens, Text: len(t.text), IDs: len(t.ids), Clean: clean, Sentence: endsSentence(t.text)}
	t.cuts = append(t.cuts, c)
	return c
}

// MarkWithin adds the ends of the last chunk's tokens except the last, so that a cut by text can count its tokens.
// tokens counts the answer with the chunk; sizes are the tokens' lengths in bytes, with one id each. A continuation by
// ids starts between chunks only, so these cut points are not clean.
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

// End adds a cut point at the end of the text with so many tokens and no ids, from which a continuation by text starts.
func (t *Transcript) End(tokens int) CutPoint {
	c := CutPoint{Tokens: tokens, Text: len(t.text)}
	t.cuts = append(t.cuts.until(c.Text), c)
	return c
}

// CutAt returns the last clean cut point of at most so many tokens; the zero CutPoint if there is none.
func (t *Transcript) CutAt(tokens int) CutPoint {
	for i := len(t.cuts) - 1; i >= 0; i-- {
		if c := t.cuts[i]; c.Clean && c.Tokens <= tokens && c.Text <= len(t.text) {
			return c
		}
	}
	return CutPoint{}
}

// CutUnsent is CutAt, or the first clean cut point that the client has no text behind.
func (t *Transcript) CutUnsent(tokens int) CutPoint {
	if at := t.CutAt(tokens); at.Text >= t.sent {
		return at
	}
	for _, c := range t.cuts {
		if c.Clean && c.Text >= t.sent {
			return c
		}
	}
	return t.CutAt(math.MaxInt)
}

// maxSentenceTokens bounds how far a cut moves back to end at a sentence or a line.
const maxSentenceTokens = 32

// CutAtSentence is CutAt, or the last clean cut point at most 32 tokens before it that ends a sentence or a line.
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

// Tokens returns the number of tokens of the text. A token that is only partly in the text counts. If the text ends
// within a chunk of several tokens, n is a lower bound and exact is false.
func (t *Transcript) Tokens() (n int, exact bool) { return t.cuts.tokens(len(t.text)) }

// TokensSent returns the number of tokens that the client has, at least.
func (t *Transcript) TokensSent() int {
	n, _ := t.cuts.tokens(t.sent)
	return n
}

// TellsAll reports whether all ids of prompt and answer are known up to a cut point at the end of the answer, so that an
// engine can continue by ids.
func (t *Transcript) TellsAll(at CutPoint) bool {
	return len(t.promptIDs) > 0 && at.IDs > 0 && at.IDs == len(t.ids) && at.IDs == at.Tokens && at.Clean
}

// Rewind takes the answer back to a cut point. What the client has after it must be repeated: part of a token may be
// sent if a stop string begins within it, and no engine can continue from there by ids.
func (t *Transcript) Rewind(to CutPoint) {
	t.restore()
	t.cut(max(to.Text, t.sent))
	if to.Text < t.sent {
		t.rewindTo(to.Text)
	}
	t.ids = t.ids[:min(to.IDs, len(t.ids))]
	for i, c := range t.cuts {
		if c.IDs > len(t.ids) && c.Text <= len(t.text) { // same text, more ids
			t.cuts[i].IDs, t.cuts[i].Clean = 0, false
		}
	}
}

// RewindToWord removes the last word, so that another backend repeats it, whether the client has it or not: an engine
// that holds back text for stop strings may have stopped within a token. The ids are dropped.
func (t *Transcript) RewindToWord() {
	t.restore()
	t.rewindTo(t.releasable(true))
	t.forgetIDs()
}

// Undo drops a pending match: the answer is as before the rewind, without ids.
func (t *Transcript) Undo() {
	if !t.Pending() {
		return
	}
	t.cut(t.rewound)
	t.cuts = t.cuts.until(len(t.text))
	t.restore()
	t.forgetIDs()
}

// EndAtWord prepares a continuation by text. Unsent text is cut to a whole word, so that the target chooses its own next
// token, unless a match is pending. All text that is left belongs to the answer, also behind the last ReleaseTo. The ids
// are dropped. It returns the number of tokens, as Tokens does.
func (t *Transcript) EndAtWord() (tokens int, exact bool) {
	t.wholeWords, t.bound = true, unbounded
	if !t.Pending() {
		t.cut(max(t.releasable(true), t.sent))
	}
	t.forgetIDs()
	return t.Tokens()
}

// Resume sets where a continuation starts: later cut points are dropped, and all text that comes may be released.
func (t *Transcript) Resume(at CutPoint) {
	t.cuts = append(t.cuts.until(at.Text), at)
	t.wholeWords, t.bound = false, unbounded
}

// Release returns the text that may be sent now, and counts it as sent. It is nil while a match is pending.
func (t *Transcript) Release() []byte {
	upTo := t.releasable(t.wholeWords)
	if t.Pending() || upTo <= t.sent {
		return nil
	}
	p := t.text[t.sent:upTo]
	t.sent = upTo
	return p
}

// ReleaseTo is Release up to a cut point; later text is kept until the next ReleaseTo or Resume.
func (t *Transcript) ReleaseTo(at CutPoint) []byte {
	t.bound = at.Text
	return t.Release()
}

// Rest returns the unsent text of an answer that has ended. It is nil while a match is pending.
func (t *Transcript) Rest() []byte {
	if t.Pending() {
		return nil
	}
	p := t.text[t.sent:]
	t.sent = len(t.text)
	return p
}

// releasable returns how many bytes the client may have: up to the bound, without the beginning of a stop string, and
// with WholeWords up to the last whole word.
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
		return tail // text without spaces, such as Chinese: hold back some characters instead
	}
	return len(bytes.TrimRightFunc(t.text[:tail+word], unicode.IsSpace))
}

// rewindTo cuts the text and expects the rest to be repeated.
func (t *Transcript) rewindTo(text int) {
	t.expected, t.rewound = bytes.Clone(t.text), text
	t.cut(text)
}

// restore undoes a rewind whose match is pending.
func (t *Transcript) restore() {
	if t.Pending() {
		t.text = append(t.text, t.expected[len(t.text):]...)
	}
	t.expected = nil
}

// cut drops the text after an offset and the stop string. Later cut points stay until the next Append, because they
// count tokens.
func (t *Transcript) cut(to int) {
	t.text = t.text[:min(to, len(t.text))]
	t.stopped, t.stop = false, t.stop[:0]
	t.stops.rewind(len(t.text))
}

// forgetIDs drops the answer's ids; later ids are not complete.
func (t *Transcript) forgetIDs() {
	t.ids = t.ids[:0]
	for i := range t.cuts {
		t.cuts[i].IDs = 0
	}
}

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

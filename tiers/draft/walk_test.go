package draft

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// walk is a transcript that is used at random, beside what must be true of it.
type walk struct {
	t     testing.TB
	draw  func(n int) int // 0 … n−1
	tr    *Transcript
	words []string // stop strings

	vocab   []string // text of each id
	sent    []byte   // that was handed out
	base    int      // bytes of text before the first id that is known
	tokens  int
	stopped bool // once
}

var (
	pieces    = []string{"a", "b", " c", "d e", "é", "日本", ". ", "\n", "ST", "OP", "xSTO", "P!", " ", "", "word", " two words", "aab", "aa"}
	stopLists = [][]string{nil, {"STOP"}, {"aab", "é."}, {"OP!", "STO", "\n\n"}, {"日本 "}}
)

func newWalk(t testing.TB, draw func(int) int) *walk {
	w := &walk{t: t, draw: draw, words: stopLists[draw(len(stopLists))]}
	o := TranscriptOptions{Stop: w.words, IncludeStop: draw(2) == 0, WholeWords: draw(3) == 0}
	if draw(4) == 0 {
		o.Text = []byte("what is there")[:draw(14)]
		o.Sent = []int{0, len(o.Text)}[draw(2)]
	}
	w.tr, w.base, w.sent = NewTranscript(o), len(o.Text), bytes.Clone(o.Text[:o.Sent])
	return w
}

// step does one thing.
func (w *walk) step() {
	tr := w.tr
	switch w.draw(19) {
	case 0:
		tr.Rewind(tr.CutAt(w.draw(w.tokens + 2)))
		w.endsAtACutPoint()
	case 1:
		tr.Rewind(tr.CutAtSentence(w.draw(w.tokens + 2)))
		w.endsAtACutPoint()
	case 2:
		tr.RewindToWord()
		w.base = tr.Len()
	case 3:
		if was := tr.expected; tr.Pending() {
			tr.Undo()
			if w.base = tr.Len(); !bytes.Equal(tr.Text(), was) || tr.Pending() {
				w.t.Fatalf("undone: %q, want %q", tr.Text(), was)
			}
		}
	case 4:
		w.tokens, _ = tr.EndAtWord()
		w.base = tr.Len()
	case 5:
		tr.Resume(tr.End(w.tokens))
	case 6, 7:
		w.took(tr.Release())
	case 8, 9:
		w.took(tr.ReleaseTo(tr.CutAt(w.draw(w.tokens + 2))))
	case 10:
		if w.draw(4) == 0 {
			w.took(tr.Rest())
		}
	default:
		w.append()
	}
	w.check()
}

func (w *walk) token(text string) int32 {
	w.vocab = append(w.vocab, text)
	return int32(len(w.vocab) - 1)
}

func (w *walk) join(ids []int32) (text []byte) {
	for _, id := range ids {
		text = append(text, w.vocab[id]...)
	}
	return text
}

// chunk draws one: mostly what is pending, cut otherwise than before.
func (w *walk) chunk() (text []byte, ids []int32, sizes []int) {
	var due []byte
	if w.tr.Pending() && w.draw(4) > 0 {
		due = w.tr.expected[w.tr.Len():]
	}
	for range 1 + w.draw(3) {
		piece := pieces[w.draw(len(pieces))]
		if len(due) > 0 {
			n := 1 + w.draw(min(len(due), 4))
			for n < len(due) && !utf8.RuneStart(due[n]) {
				n++
			}
			piece, due = string(due[:n]), due[n:]
		}
		text, ids, sizes = append(text, piece...), append(ids, w.token(piece)), append(sizes, len(piece))
	}
	return text, ids, sizes
}

func (w *walk) append() {
	tr := w.tr
	text, ids, sizes := w.chunk()
	told := w.draw(8) > 0
	if !told {
		ids = nil // the backend left them out
	}
	before, wasStopped := string(tr.Text()), tr.stopped
	due := ""
	if tr.Pending() {
		due = string(tr.expected[tr.Len():])
	}
	n := min(len(due), len(text))
	unlike := !wasStopped && due[:n] != string(text[:n])
	stopped, err := tr.Append(text, ids)
	switch {
	case unlike != errors.Is(err, ErrMismatch):
		w.t.Fatalf("%q behind %q, of which %q is pending: %v", text, before, due, err)
	case (unlike || wasStopped) && string(tr.Text()) != before:
		w.t.Fatalf("%q was refused, and the text is %q, was %q", text, tr.Text(), before)
	case unlike || wasStopped:
		return
	case stopped:
		w.stopped = true
		w.stop(before, text)
		return
	case string(tr.Text()) != before+string(text):
		w.t.Fatalf("%q behind %q: %q", text, before, tr.Text())
	}
	w.tokens += len(sizes)
	if told && w.draw(2) == 0 {
		tr.MarkWithin(w.tokens, sizes)
	}
	tr.Mark(w.tokens, bytes.Equal(w.join(tr.IDs()), tr.Text()[w.base:]) && w.draw(4) > 0)
}

// stop checks where a stop string ended the answer.
func (w *walk) stop(before string, text []byte) {
	word, end, ok := w.tr.Stop()
	whole := before + string(text)
	start := end - len(word)
	if !ok || !slices.Contains(w.words, string(word)) || whole[start:end] != string(word) {
		w.t.Fatalf("stopped by %q in %q, which ends at %d", word, whole, end)
	}
	if w.tr.includeStop {
		start = end
	}
	if want := whole[:min(max(start, len(w.sent)), len(whole))]; string(w.tr.Text()) != want {
		w.t.Fatalf("%q, stopped by %q: %q, want %q", whole, word, w.tr.Text(), want)
	}
}

func (w *walk) endsAtACutPoint() {
	w.base = min(w.base, w.tr.Len())
	if !bytes.Equal(w.join(w.tr.IDs()), w.tr.Text()[w.base:]) {
		w.t.Fatalf("rewound: ids of %q, and the text is %q", w.join(w.tr.IDs()), w.tr.Text()[w.base:])
	}
	w.tokens = w.tr.CutAt(w.tokens).Tokens
}

// took checks bytes that were handed out.
func (w *walk) took(p []byte) {
	if w.sent = append(w.sent, p...); w.tr.Pending() && len(p) > 0 {
		w.t.Fatalf("%q was handed out while a match is pending", p)
	}
}

// check checks what holds at all times.
func (w *walk) check() {
	tr := w.tr
	w.base = min(w.base, tr.Len())
	text, whole := tr.Text(), tr.Text()
	if tr.Pending() {
		if whole = tr.expected; !bytes.HasPrefix(whole, text) {
			w.t.Fatalf("%q is pending, and the text is %q", whole, text)
		}
	}
	if len(w.sent) != tr.sent || !bytes.HasPrefix(whole, w.sent) {
		w.t.Fatalf("the client has %q, %d bytes are booked, and the answer is %q", w.sent, tr.sent, whole)
	}
	if at := tr.CutAt(w.draw(w.tokens + 2)); at.Text > len(text) || at.IDs > len(tr.IDs()) ||
		at.Text >= w.base && !bytes.Equal(w.join(tr.IDs()[:at.IDs]), text[min(w.base, at.Text):at.Text]) {
		w.t.Fatalf("at %+v, ids of %q, and the text is %q", at, w.join(tr.IDs()), text[w.base:])
	}
	for _, word := range w.words {
		if !w.stopped && bytes.Contains(text, []byte(word)) {
			w.t.Fatalf("%q holds the stop string %q", text, word)
		}
	}
}

// end hands out the rest: the client has the answer, once.
func (w *walk) end() {
	w.tr.Undo()
	w.took(w.tr.Rest())
	if !bytes.Equal(w.sent, w.tr.Text()) || w.tr.Rest() != nil && len(w.tr.Rest()) > 0 {
		w.t.Fatalf("the client has %q of %q", w.sent, w.tr.Text())
	}
}

// Any order of append, cut, rewind, stop match and release: no byte is sent twice, none is retracted, and ids and
// text stay in step.
func TestARandomWalkNeverRetractsNorSendsTwiceAndKeepsIDsInStep(t *testing.T) {
	walks := 1_000_000
	if testing.Short() {
		walks = 4_000
	}
	r := rand.New(rand.NewPCG(20, 1))
	for range walks {
		w := newWalk(t, r.IntN)
		for range 1 + r.IntN(30) {
			w.step()
		}
		w.end()
	}
}

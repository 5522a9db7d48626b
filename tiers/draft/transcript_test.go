package draft

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said appends texts of one token each, and marks each of them.
func said(t *testing.T, tr *Transcript, texts ...string) {
	t.Helper()
	for _, text := range texts {
		n := len(tr.IDs())
		if stopped, err := tr.Append([]byte(text), []int32{int32(n)}); stopped || err != nil {
			t.Fatalf("%q: stopped %v, %v", text, stopped, err)
		}
		tr.Mark(n+1, true)
	}
}

func want(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if string(got) != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAStopStringEndsTheAnswerWhereItBegins(t *testing.T) {
	for name, c := range map[string]struct {
		stop    []string
		include bool
		chunks  []string
		text    string
		withIt  string
		end     int // 0 is none
	}{
		"in one chunk":                     {[]string{"STOP"}, false, []string{"one STOP two"}, "one ", "one STOP", 8},
		"over three chunks":                {[]string{"STOP"}, false, []string{"one S", "TO", "P two"}, "one ", "one STOP", 8},
		"it is part of the answer":         {[]string{"STOP"}, true, []string{"one ST", "OP two"}, "one STOP", "one STOP", 8},
		"the first of two":                 {[]string{"two", "one"}, false, []string{"a one two"}, "a ", "a one", 5},
		"nothing is added behind it":       {[]string{"STOP"}, false, []string{"STOP", "more"}, "", "STOP", 4},
		"one that is not finished is none": {[]string{"STOP"}, false, []string{"STO", "RE"}, "STORE", "STORE", 0},
		"none are wanted":                  {nil, false, []string{"STOP"}, "STOP", "STOP", 0},
	} {
		tr := NewTranscript(TranscriptOptions{Stop: c.stop, IncludeStop: c.include})
		stopped := false
		for _, text := range c.chunks {
			stopped, _ = tr.Append([]byte(text), nil)
		}
		_, end, ok := tr.Stop()
		if ok != (c.end > 0) || stopped != ok || end != c.end {
			t.Errorf("%s: stopped %v, it ends at %d, want %d", name, ok, end, c.end)
		}
		want(t, name, tr.Text(), c.text)
		want(t, name+", with it", tr.TextWithStop(), c.withIt)
	}
}

func TestWhatMayBecomeAStopStringIsHeldBack(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{Stop: []string{"STOP", "é."}})
	said(t, tr, "go ST")
	want(t, "released", tr.Release(), "go ")
	said(t, tr, "AY, café")
	want(t, "it became another word", tr.Release(), "STAY, caf")
	want(t, "the rest of an answer that is over", tr.Rest(), "é")
	if tr.Release() != nil || tr.sent != tr.Len() {
		t.Error("bytes were released twice")
	}
}

func TestAStopStringThatBeginsInWhatWasSentLeavesThatThere(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{Stop: []string{"aab"}})
	said(t, tr, "x", "aa", "c")
	want(t, "released to a cut point", tr.ReleaseTo(tr.CutAt(2)), "xaa")
	tr.Rewind(tr.CutAt(2))
	if stopped, err := tr.Append([]byte("b"), []int32{9}); !stopped || err != nil {
		t.Fatalf("stopped %v, %v", stopped, err)
	}
	want(t, "the text", tr.Text(), "xaa")
	want(t, "the rest", tr.Rest(), "")
}

func TestWholeWordsAreReleasedWhereAContinuationByTextMayFollow(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{WholeWords: true})
	said(t, tr, "two words", " and")
	want(t, "released", tr.Release(), "two words")
	tr.Resume(tr.End(2))
	want(t, "after that all", tr.Release(), " and")

	long := NewTranscript(TranscriptOptions{WholeWords: true})
	said(t, long, "日本語日本語日本語日本語日本語日本語日本語")             // 63 bytes without a space
	want(t, "without spaces", long.Release(), "日本語日本") // 48 are held back, and no character is cut
}

func TestWhatTheClientHasBehindARewindMustComeAgain(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	tr.AppendPrompt([]int32{1, 2})
	said(t, tr, "one", " two", " three")
	want(t, "released", tr.Release(), "one two three")
	tr.Rewind(tr.CutAt(1))
	if !tr.Pending() || len(tr.IDs()) != 1 || tr.Release() != nil || tr.Rest() != nil {
		t.Fatalf("pending %v, ids %v", tr.Pending(), tr.IDs())
	}
	tr.Resume(tr.CutAt(1))
	if !tr.TellsAll(tr.CutAt(1)) {
		t.Error("its ids are all there")
	}
	if _, err := tr.Append([]byte(" tow"), []int32{7}); !errors.Is(err, ErrMismatch) {
		t.Fatalf("other text was taken: %v", err)
	}
	want(t, "refused", tr.Text(), "one")
	said(t, tr, " t", "wo thr")
	if !tr.Pending() {
		t.Error("nothing is pending, and a part of it did not come")
	}
	said(t, tr, "ee", " four")
	want(t, "released", tr.Release(), " four")
	want(t, "the text", tr.Text(), "one two three four")
}

func TestAPendingMatchMayBeGivenUp(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	said(t, tr, "one", " two")
	tr.Release()
	tr.Rewind(CutPoint{})
	tr.Resume(CutPoint{})
	said(t, tr, "on")
	tr.Undo()
	want(t, "the text", tr.Text(), "one two")
	if tr.Pending() || len(tr.IDs()) != 0 || tr.TellsAll(tr.End(3)) {
		t.Errorf("pending %v, ids %v", tr.Pending(), tr.IDs())
	}
	if at := tr.CutAt(9); at != (CutPoint{}) {
		t.Errorf("a cut point of what was written again is left: %+v", at)
	}
	tr.Undo() // changes nothing now
	tr.Resume(tr.End(3))
	said(t, tr, "!")
	want(t, "released", tr.Release(), "!")
}

func TestTheEndOfATextThatNobodyCountedHasTheTokensThatItIsSaidToHave(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{Text: []byte("one two three"), Sent: 13})
	tr.RewindToWord()
	tr.End(7)
	if n, exact := tr.EndAtWord(); n != 7 || !exact {
		t.Errorf("%d tokens, exactly %v, want 7", n, exact)
	}
	tr.Undo()
	tr.End(9)
	if n, exact := tr.EndAtWord(); n != 9 || !exact {
		t.Errorf("undone: %d tokens, exactly %v, want 9", n, exact)
	}
}

func TestARewindWithinWhatWasNotSentDropsIt(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	said(t, tr, "one", " two", " three")
	tr.ReleaseTo(tr.CutAt(1))
	tr.Rewind(tr.CutAt(2))
	if tr.Pending() {
		t.Error("a match is pending")
	}
	want(t, "the text", tr.Text(), "one two")
	want(t, "nothing behind the bound", tr.Release(), "")
}

func TestTheLastWordIsRewrittenByWhoCarriesOn(t *testing.T) {
	for name, sent := range map[string]int{"the client has all": 11, "others have it": 0} {
		tr := NewTranscript(TranscriptOptions{Text: []byte("one two thr"), Sent: sent})
		tr.RewindToWord()
		want(t, name+": left", tr.Text(), "one two")
		tr.Resume(tr.End(2))
		if _, err := tr.Append([]byte(" twenty"), nil); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: another word was taken: %v", name, err)
		}
		if _, err := tr.Append([]byte(" three"), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want(t, name+": released", tr.Release(), "one two three"[sent:])
	}
}

func TestAContinuationByTextBeginsBehindAWholeWordAndKeepsWhatWasSent(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	said(t, tr, "one", " two", " thr", "ee")
	if n, exact := tr.EndAtWord(); n != 2 || !exact {
		t.Errorf("%d tokens, exactly %v, want 2", n, exact)
	}
	want(t, "not sent", tr.Text(), "one two")
	if len(tr.IDs()) != 0 {
		t.Errorf("ids %v", tr.IDs())
	}

	tr = NewTranscript(TranscriptOptions{})
	said(t, tr, "one", " two", " thr")
	tr.Release()
	if n, exact := tr.EndAtWord(); n != 3 || !exact {
		t.Errorf("%d tokens, exactly %v, want 3", n, exact)
	}
	want(t, "sent", tr.Text(), "one two thr")

	tr = NewTranscript(TranscriptOptions{})
	said(t, tr, "one", " two", " three", " four", " five")
	want(t, "released", tr.ReleaseTo(tr.CutAt(2)), "one two")
	tr.Rewind(tr.CutAt(4))
	if n, exact := tr.EndAtWord(); n != 3 || !exact {
		t.Errorf("%d tokens, exactly %v, want 3", n, exact)
	}
	want(t, "accepted but not released", tr.Text(), "one two three")
}

func TestACutIsAtACleanPlaceAtASentencesEndIfOneIsNear(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	for n := 1; n <= 60; n++ {
		text := "a"
		if n == 10 || n == 20 || n == 45 {
			text = "."
		}
		tr.Append([]byte(text), []int32{1})
		tr.Mark(n, n != 45 && n != 50)
	}
	for tokens, w := range map[int][2]int{60: {60, 60}, 50: {49, 20}, 30: {30, 20}, 45: {44, 20}, 9: {9, 9}, 0: {0, 0}, 53: {53, 53}, 52: {52, 20}} {
		at, sentence := tr.CutAt(tokens), tr.CutAtSentence(tokens)
		if at.Tokens != w[0] || sentence.Tokens != w[1] {
			t.Errorf("of %d tokens: %d and %d at a sentence's end, want %d and %d", tokens, at.Tokens, sentence.Tokens, w[0], w[1])
		}
	}
	wanted := CutPoint{Tokens: 10, Text: 10, IDs: 10, Clean: true, Sentence: true}
	if diff := cmp.Diff(wanted, tr.CutAt(10)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCutPointsBehindAStopStringAreForgotten(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{Stop: []string{"c d"}})
	said(t, tr, "a", " b", " c")
	if stopped, _ := tr.Append([]byte(" d"), []int32{9}); !stopped {
		t.Fatal("not stopped")
	}
	if at := tr.CutAt(9); at.Tokens != 2 || len(tr.IDs()) != 4 {
		t.Errorf("the last cut point is %+v, %d ids", at, len(tr.IDs()))
	}
	tr.Rewind(tr.CutAt(9))
	said(t, tr, " e")
	want(t, "goes on", tr.Text(), "a b e")
}

func TestTokensOfATextThatWasCutAreCountedAsFarAsTheyAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int // of the tokens in each chunk of 8 bytes, where they are told
		text  int
		n     int
		exact bool
	}{
		"nothing":                      {nil, 0, 0, true},
		"a chunk":                      {nil, 8, 2, true},
		"one that is shown in part":    {[]int{3, 5}, 10, 3, true},
		"at the end of a token within": {[]int{3, 5}, 11, 3, true},
		"the second in part":           {[]int{3, 5}, 12, 4, true},
		"within a chunk of two":        {nil, 12, 3, false},
		"all":                          {nil, 24, 6, true},
	} {
		tr := NewTranscript(TranscriptOptions{})
		for n := 1; n <= 3; n++ {
			tr.Append([]byte("12345678"), []int32{1, 2})
			if c.sizes != nil {
				tr.MarkWithin(2*n, c.sizes)
			}
			tr.Mark(2*n, true)
		}
		tr.Rewind(CutPoint{Text: c.text})
		if n, exact := tr.Tokens(); n != c.n || exact != c.exact {
			t.Errorf("%s: %d tokens, exactly %v, want %d, %v", name, n, exact, c.n, c.exact)
		}
	}
}

func TestIDsAreGoneOnFromOnlyWhereTheyAreAll(t *testing.T) {
	tr := NewTranscript(TranscriptOptions{})
	tr.Append([]byte("one"), []int32{1})
	at := tr.Mark(1, true)
	if tr.TellsAll(at) {
		t.Error("those of the prompt are not known")
	}
	tr.AppendPrompt([]int32{7})
	if !tr.TellsAll(at) {
		t.Error("all are known")
	}
	if unclean := tr.Mark(1, false); tr.TellsAll(unclean) {
		t.Error("the text does not end where the token does")
	}
	tr.Append([]byte(" two"), nil)
	if tr.TellsAll(tr.Mark(2, true)) {
		t.Error("one was left out")
	}
	tr.Append([]byte(" three"), []int32{3})
	if tr.TellsAll(at) {
		t.Error("the answer goes on behind the cut point")
	}
	tr.Rewind(at)
	if !tr.TellsAll(at) {
		t.Error("rewound: all are known")
	}
}

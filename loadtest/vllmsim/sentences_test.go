package vllmsim

import (
	"strings"
	"testing"
)

// Answers in sentences keep what the others have: their text encodes to their ids, and a draft strays from its target.
func TestAnswersInSentencesAreOfWholeWordsAndScoreAsTheyAreWritten(t *testing.T) {
	target := &Model{language: 3, seed: mix(3, 0x51), tok: DefaultTokenizer(), sentences: defaultSentences()}
	draft := *target
	draft.divergence = 0.35
	strayed := 0
	for i := range 200 {
		prompt := target.tok.Chat([]Message{{"user", strings.Repeat("why? ", i+1)}})
		ctx := append([]int32{}, prompt...)
		same := true
		for range maxLength {
			next := target.Next(ctx).Argmax()
			same = same && draft.Next(ctx).Argmax() == next
			if next == tokEOT {
				break
			}
			ctx = append(ctx, next)
		}
		if !same {
			strayed++
		}
		ids := ctx[len(prompt):]
		text := target.tok.Decode(ids, false)
		expect(t, "encoded again", target.tok.Encode(text), ids)
		for sentence := range strings.SplitAfterSeq(strings.TrimSuffix(text, "."), ". ") {
			if n := len(strings.Fields(sentence)); n < 8 || n > 25 || sentence[0] < 'A' || sentence[0] > 'Z' {
				t.Fatalf("%q in %q", sentence, text)
			}
		}
	}
	if strayed < 40 || strayed > 160 {
		t.Errorf("a draft would write %d of 200 answers otherwise", strayed)
	}
}

package vllmsim

import (
	"fmt"
	"slices"
	"testing"
)

// tiedGreedy writes an answer as a server does.
func tiedGreedy(m *Model, prompt []int32, limit int) (ids []int32) {
	w := NewWriter(m, prompt, Sampling{MaxTokens: limit})
	for done := false; !done; {
		var id int32
		id, done = w.Next()
		ids = append(ids, id)
	}
	return ids
}

// What is written at a tie may be the second of those that scoring sees, never by more than one rounding; elsewhere it is
// the first.
func TestTiesSplitWritingFromScoringByARoundingAtMost(t *testing.T) {
	m := NewModel(5, 0).WithTies(0.2)
	places, second, level := 0, 0, 0
	for k := range 30 {
		prompt := chat(t, fmt.Sprintf("question %d", k))
		answer := tiedGreedy(m, prompt, 200)
		m.Score(prompt, answer, func(i int, d *Dist) bool {
			places++
			gap := d.LogProb(d.Argmax()) - d.LogProb(answer[i])
			if gap > tieGap {
				t.Fatalf("token %d is %g behind", i, gap)
			}
			if answer[i] != d.Argmax() {
				second++
				if gap == 0 {
					level++
				}
			}
			if sum := d.Tail * float64(d.Vocab-len(d.Top)); sum > 0 {
				for _, c := range d.Top {
					sum += c.P
				}
				if sum < 1-1e-9 || sum > 1+1e-9 {
					t.Fatalf("probabilities add up to %g", sum)
				}
			}
			return true
		})
		expect(t, "again", fmt.Sprint(tiedGreedy(m, prompt, 200)), fmt.Sprint(answer))
		if cut := len(answer) / 2; cut > 0 {
			rest := tiedGreedy(m, append(slices.Clone(prompt), answer[:cut]...), 200-cut)
			expect(t, "continued", fmt.Sprint(rest), fmt.Sprint(answer[cut:]))
		}
	}
	// Half of one place in five, and some of them level.
	if share := float64(second) / float64(places); share < 0.07 || share > 0.13 || level == 0 {
		t.Errorf("%d of %d tokens are not the first choice, %d of them level", second, places, level)
	}
}

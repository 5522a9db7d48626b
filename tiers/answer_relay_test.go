package tiers

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// TestATextThatNobodyCountedIsNeverTakenForMoreTokensThanItHas: the answer's backend is lost, and no engine counts its tokens.
// The next one may write at least as many as are left.
func TestATextThatNobodyCountedIsNeverTakenForMoreTokensThanItHas(t *testing.T) {
	for _, tc := range []struct {
		stop   string
		frames []string
		left   int // of 40
	}{
		{"", []string{"one", " two", " and", " more"}, 37}, // up to the last whole word
		{"", []string{"one two three four five", " six"}, 39},
		{`,"stop":["abcd"]`, []string{"one", " two", " three", " four", " more"}, 39}, // the engine may be three bytes behind, of a token each
		{`,"stop":["abcd"]`, []string{"one", " two", " more"}, 40},
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, tc.stop)
		left := -1
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Relay:
				s := &stream{err: &engine.Failure{Kind: engine.Cut}}
				for _, text := range tc.frames {
					raw := fmt.Sprintf(`{"model":"big","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
					s.chunks = append(s.chunks, openai.Chunk{
						Raw: []byte(raw), Model: openai.Span{Start: 9, End: 14}, Close: len(raw) - 1, Choices: 1, Plain: true, Text: []byte(text),
					})
				}
				return s, nil
			case *engine.ContinueText:
				if left < 0 { // it does not repeat the last word, and is asked again
					left = q.MaxTokens
				}
				return letters(" end", "stop", nil), nil
			}
			return nil, &engine.Failure{Kind: engine.Rejected} // it counts nothing
		}
		if err := r.run(t.Context()); err != nil || left != tc.left || !r.rc.Estimated {
			t.Errorf("%q%s: %d tokens left, want %d, estimated %t, %v; calls %v", tc.frames, tc.stop, left, tc.left, r.rc.Estimated, err, r.calls)
		}
	}
}

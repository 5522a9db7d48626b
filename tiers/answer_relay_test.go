package tiers

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// cutAfter is the target's own answer, whose backend is lost after these frames.
func cutAfter(frames ...string) *stream {
	s := &stream{err: &engine.Failure{Kind: engine.Cut}}
	for _, text := range frames {
		raw := fmt.Sprintf(`{"model":"big","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
		s.chunks = append(s.chunks, openai.Chunk{
			Raw: []byte(raw), Model: openai.Span{Start: 9, End: 14}, Close: len(raw) - 1, Choices: 1, Plain: true, Text: []byte(text),
		})
	}
	return s
}

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
				return cutAfter(tc.frames...), nil
			case *engine.ContinueText:
				if left < 0 { // it does not repeat the last word, and is asked again
					left = q.MaxTokens
				}
				return letters(" end", "stop", nil), nil
			}
			return nil, &engine.Failure{Kind: engine.Rejected} // it counts nothing
		}
		if err := r.run(t.Context()); err != nil || left != tc.left || !r.rc.Estimated || r.rc.Failovers[0].At <= 0 {
			t.Errorf("%q%s: %d tokens left, want %d, estimated %t, %v; calls %v, %+v", tc.frames, tc.stop, left, tc.left, r.rc.Estimated, err, r.calls, r.rc.Failovers)
		}
	}
}

func TestAnAnswerThatBreaksOffIsCountedByItsFrames(t *testing.T) {
	r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
	r.request.Config.MidstreamFailover = false
	r.answer = func(engine.Call) (engine.Stream, error) { return cutAfter("one", " two", " three"), nil }
	if err := r.run(t.Context()); err == nil || r.rc.TargetTokens != 3 || !r.rc.Estimated {
		t.Errorf("%v, %d tokens, estimated %t", err, r.rc.TargetTokens, r.rc.Estimated)
	}
}

// TestADraftThatIsCutInsideAChunkOfSeveralTokensIsCounted: only an engine knows how many of them are before the cut.
func TestADraftThatIsCutInsideAChunkOfSeveralTokensIsCounted(t *testing.T) {
	for tokens, left := range map[int]int{1: 39, 3: 33} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Resume: plan.ResumeText}, "")
		r.request.Config.Accept = accept.Config{Threshold: -100}
		got := 0
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Draft:
				s := letters("x", "", &engine.Failure{Kind: engine.Cut})
				c := &s.chunks[0]
				c.Text, c.IDs, c.Logprobs = []byte("one two thr"), make([]int32, tokens), make([]float64, tokens)
				for range tokens - 1 {
					c.AddTop(-0.01, -5)
				}
				return s, nil
			case *engine.TokenizeText:
				*q.Into = make([]int32, 7)
			case *engine.ContinueText:
				got = q.MaxTokens
				return letters(" four", "stop", nil), nil
			}
			return &stream{}, nil
		}
		if err := r.run(t.Context()); err != nil || got != left {
			t.Errorf("%d tokens: %d of 40 are left, want %d, %v; calls %v", tokens, got, left, err, r.calls)
		}
	}
}

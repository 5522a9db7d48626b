package tiers

import (
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
)

// TestThePromptOfADraftWhoseUsageNeverCameIsCounted: its stream is left at a stop string, or breaks off, before the usage. By
// an engine if it can, else what is estimated is marked.
func TestThePromptOfADraftWhoseUsageNeverCameIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		lost    bool // the draft's backend, in mid-answer
		counted int  // by an engine; 0: it cannot
	}{
		"it stopped":                   {"one stop", false, 34},
		"it stopped, nobody counts":    {"one stop", false, 0},
		"continued":                    {"one two three ", true, 34},
		"continued, and nobody counts": {"one two three ", true, 0},
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Resume: plan.ResumeText}, `,"stop":["stop"],"stream_options":{"include_usage":true}`)
		r.request.Config.Accept = accept.Config{Threshold: -100}
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Draft:
				s := letters(c.text, "", nil)
				if c.lost {
					s.err = &engine.Failure{Kind: engine.Cut}
				}
				for i := range s.chunks {
					s.chunks[i].PromptIDs = nil
				}
				return s, nil
			case *engine.ContinueText:
				return letters(" four", "stop", nil), nil
			case *engine.TokenizePrompt:
				if c.counted == 0 {
					return nil, &engine.Failure{Kind: engine.Rejected}
				}
				*q.Into = make([]int32, c.counted)
			}
			return &stream{}, nil
		}
		if err := r.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := c.counted
		if want == 0 {
			want = r.request.Body.PromptTokens
		}
		if _, _, prompt, _ := r.clientAnswer(); prompt != want || r.rc.PromptTokens != want || r.rc.Estimated != (c.counted == 0) {
			t.Errorf("%s: a prompt of %d tokens, recorded %d, estimated %t; calls %v", name, prompt, r.rc.PromptTokens, r.rc.Estimated, r.calls)
		}
	}
}

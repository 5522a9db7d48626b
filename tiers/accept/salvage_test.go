package accept

import "testing"

func TestWhatIsSalvagedOfADraft(t *testing.T) {
	all := Salvage{Tokens: 40, AtSentence: true, Min: minSalvage}
	for name, tc := range map[string]struct {
		state State
		v     Verdict
		ended bool
		heard *Check
		want  Salvage
	}{
		"it broke off":               {State{Resumes: true}, Verdict{Reason: ReasonCut}, false, nil, all},
		"its shape is at fault":      {State{Resumes: true}, Verdict{Reason: ReasonInvalid}, true, nil, all},
		"the target cannot resume":   {State{}, Verdict{Reason: ReasonScore}, false, nil, Salvage{}},
		"a loop":                     {State{Resumes: true}, Verdict{Reason: ReasonRepetition}, true, nil, Salvage{}},
		"nothing":                    {State{Resumes: true}, Verdict{Reason: ReasonEmpty}, true, nil, Salvage{}},
		"no logprobs":                {State{Resumes: true}, Verdict{Reason: ReasonNoLogprobs}, true, nil, Salvage{}},
		"cut by its own end":         {State{Resumes: true}, Verdict{Reason: ReasonCut}, true, nil, Salvage{}},
		"too long":                   {State{Resumes: true}, Verdict{Reason: ReasonLong}, false, nil, Salvage{}},
		"the target has not seen it": {State{Resumes: true, Ask: AskAlways}, Verdict{Reason: ReasonCut}, false, nil, Salvage{}},
		"the target stood by a part": {State{Resumes: true, Ask: AskAlways}, Verdict{Reason: ReasonDisagrees}, true, &Check{Kept: 12}, Salvage{Tokens: 12}},
		"the target could not say":   {State{Resumes: true, Ask: AskAlways}, Verdict{Reason: ReasonNoVerdict}, true, nil, Salvage{}},
	} {
		tc.state.Whole = true
		c := NewState(testConfig, tc.state)
		follow(&c, repeat(-0.05, 40))
		if tc.heard != nil {
			c.Heard(tc.heard)
		}
		if got := c.Salvage(tc.v, tc.ended); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestWhatWasCommittedIsSalvagedWhole(t *testing.T) {
	c := newState(State{Holdback: 32, Resumes: true})
	follow(c, append(repeat(-0.05, 60), repeat(-3, 20)...))
	if !c.Committed() || !c.Rejected() {
		t.Fatal("want a commit, then a rejection")
	}
	if got := c.Salvage(c.Early(), false); got != (Salvage{Tokens: c.Tokens()}) || got.Tokens < 60 {
		t.Errorf("%+v of %d tokens", got, c.Tokens())
	}
}

func TestOfARejectedDraftWhatIsBeforeTheDoubtIsSalvaged(t *testing.T) {
	c := newState(State{Holdback: 200, Resumes: true})
	follow(c, append(repeat(-0.05, 60), repeat(-3, 20)...))
	if got := c.Salvage(c.Early(), false); got != (Salvage{Tokens: 50, AtSentence: true, Min: minSalvage}) {
		t.Errorf("%+v", got) // the worst window starts at 50
	}
}

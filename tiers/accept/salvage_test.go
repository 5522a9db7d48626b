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
		"it broke off":               {State{CanResume: true}, Verdict{Reason: ReasonCut}, false, nil, all},
		"its backend failed":         {State{CanResume: true}, Verdict{Reason: ReasonLost}, false, nil, all},
		"its shape is at fault":      {State{CanResume: true}, Verdict{Reason: ReasonInvalid}, true, nil, Salvage{}},
		"a reason that is new":       {State{CanResume: true}, Verdict{Reason: "refusal"}, true, nil, Salvage{}},
		"the target cannot resume":   {State{}, Verdict{Reason: ReasonScore}, false, nil, Salvage{}},
		"a loop":                     {State{CanResume: true}, Verdict{Reason: ReasonRepetition}, true, nil, Salvage{}},
		"nothing":                    {State{CanResume: true}, Verdict{Reason: ReasonEmpty}, true, nil, Salvage{}},
		"no logprobs":                {State{CanResume: true}, Verdict{Reason: ReasonNoLogprobs}, true, nil, Salvage{}},
		"cut by its own end":         {State{CanResume: true}, Verdict{Reason: ReasonCut}, true, nil, Salvage{}},
		"too long":                   {State{CanResume: true}, Verdict{Reason: ReasonLong}, false, nil, Salvage{}},
		"the target has not seen it": {State{CanResume: true, Checked: true}, Verdict{Reason: ReasonCut}, false, nil, Salvage{}},
		"the target stood by a part": {State{CanResume: true, Checked: true}, Verdict{Reason: ReasonTargetDisagrees}, true, &Check{Kept: 12}, Salvage{Tokens: 12}},
		"the target could not say":   {State{CanResume: true, Checked: true}, Verdict{Reason: ReasonNoVerdict}, true, nil, Salvage{}},
	} {
		tc.state.Whole = true
		c := NewState(testConfig, tc.state)
		follow(&c, repeat(-0.05, 40))
		if tc.heard != nil {
			c.ApplyCheck(tc.heard)
		}
		if got := c.Salvage(tc.v, tc.ended); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestWhatWasCommittedIsSalvagedWhole(t *testing.T) {
	c := newState(State{HoldbackTokens: 32, CanResume: true})
	follow(c, append(repeat(-0.05, 60), repeat(-3, 20)...))
	if !c.Committed() || !c.Rejected() {
		t.Fatal("want a commit, then a rejection")
	}
	if got := c.Salvage(c.EarlyVerdict(), false); got != (Salvage{Tokens: c.Tokens()}) || got.Tokens < 60 {
		t.Errorf("%+v of %d tokens", got, c.Tokens())
	}
}

func TestOfARejectedDraftWhatIsBeforeTheDoubtIsSalvaged(t *testing.T) {
	c := newState(State{HoldbackTokens: 200, CanResume: true})
	follow(c, append(repeat(-0.05, 60), repeat(-3, 20)...))
	if got := c.Salvage(c.EarlyVerdict(), false); got != (Salvage{Tokens: 50, AtSentence: true, Min: minSalvage}) {
		t.Errorf("%+v", got) // the worst window starts at 50
	}
}

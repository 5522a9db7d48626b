package accept

import (
	"testing"
)

// follow runs a state over tokens.
func follow(c *State, logprobs []float64) {
	for _, lp := range logprobs {
		if !c.Add(lp, []float64{lp}) {
			return
		}
		c.Decide(false)
	}
}

func newState(c State) *State {
	c.ScoreTracker = NewScoreTracker(testConfig)
	return &c
}

func TestADraftCommitsWhenTheHoldBackIsOver(t *testing.T) {
	c := newState(State{HoldbackTokens: 20, CanResume: true})
	follow(c, repeat(-0.05, 19))
	if c.Committed() {
		t.Error("committed before the hold-back was over")
	}
	if !c.Decide(true) || !c.Committed() || c.Decide(true) {
		t.Error("the hold-back's time did not commit it, once")
	}
	whole := newState(State{HoldbackTokens: 1, Whole: true})
	follow(whole, repeat(-0.05, 30))
	if whole.Committed() {
		t.Error("a draft that is judged whole was committed early")
	}
}

func TestADraftWithTooFewLogprobsIsRefusedInsteadOfCommitted(t *testing.T) {
	c := newState(State{HoldbackTokens: 8, CanResume: true})
	c.AddMissing(8)
	if c.Decide(false) || c.Committed() || !c.Rejected() {
		t.Errorf("committed %v, rejected %v", c.Committed(), c.Rejected())
	}
}

func TestACommittedDraftStaysOnlyIfItsEndIsAtFault(t *testing.T) {
	c := newState(State{HoldbackTokens: 8})
	follow(c, repeat(-0.05, 10))
	for _, tc := range []struct {
		v     Verdict
		ended bool
		want  bool
	}{
		{Verdict{Accept: true, Reason: ReasonConfident}, true, true},
		{Verdict{Reason: ReasonCut}, true, true},
		{Verdict{Reason: ReasonRepetition}, true, false},
		{Verdict{Reason: ReasonEmpty}, true, false},
		{Verdict{Reason: ReasonScore}, true, false},
		{Verdict{Reason: ReasonCut}, false, false},
	} {
		if got := c.IsAnswer(tc.v, tc.ended); got != tc.want {
			t.Errorf("%+v, ended %v: kept %v", tc.v, tc.ended, got)
		}
	}
}

// asked is a state whose tokens all have the same logprob, decided at the end of its hold-back.
func asked(cfg Config, c State, logprob float64, tokens int) (*State, bool) {
	out := NewState(cfg, c)
	for range tokens {
		out.Add(logprob, []float64{logprob})
	}
	return &out, out.Decide(false)
}

func TestAScoreAloneDecidesUnlessTheTargetChecks(t *testing.T) {
	cfg := testConfig
	cfg.Threshold = 0.2
	const sure, bad = -0.05, -1.0 // scores of about 0.3 and −0.4 nats
	for name, c := range map[string]struct {
		checked bool
		logprob float64
		final   string
	}{
		"never, sure":        {false, sure, ReasonConfident},
		"never, bad":         {false, bad, ReasonScore},
		"always, sure":       {true, sure, ReasonDoubtful},
		"always, bad":        {true, bad, ReasonDoubtful},
		"always, impossible": {true, -500, ReasonDoubtful},
	} {
		whole, committed := asked(cfg, State{HoldbackTokens: 1, Whole: true, Checked: c.checked}, c.logprob, 16)
		if v := whole.FinalVerdict(Draft{Text: []byte("fine"), Finish: "stop"}); committed || v.Reason != c.final || v.Accept != (c.final == ReasonConfident) {
			t.Errorf("%s: committed %t, %+v", name, committed, v)
		}
	}
}

func TestCheckedWholeDraftsAreInTheTargetsCohort(t *testing.T) {
	end := Draft{Text: []byte("fine"), Finish: "stop"}
	c, _ := asked(testConfig, State{Whole: true, Checked: true, CanResume: true}, -0.05, 16)
	if at := c.Salvage(Verdict{Reason: ReasonCut}, false); at != (Salvage{}) {
		t.Errorf("what the target has not seen is carried over: %+v", at)
	}
	c.ApplyCheck(&Check{Pass: true, Kept: 16, Reason: ReasonTargetAgrees})
	if v := c.FinalVerdict(end); !v.Accept || v.Cohort != CohortWhole || !c.IsAnswer(v, true) || c.Committed() {
		t.Errorf("%+v", v)
	}
	c, _ = asked(testConfig, State{Whole: true}, -0.05, 16)
	if v := c.FinalVerdict(end); v.Cohort != CohortConfidence {
		t.Errorf("not asked: %+v", v)
	}
}

func TestWhatWasCommittedStaysWhereThatIsWanted(t *testing.T) {
	for _, stays := range []bool{false, true} {
		c, d := asked(testConfig, State{HoldbackTokens: 16, CanResume: true, KeepCommitted: stays}, -0.05, 16)
		if !d {
			t.Fatal("not committed")
		}
		for range 40 {
			c.Add(-5, []float64{-5})
		}
		v := c.FinalVerdict(Draft{Text: []byte("fine"), Finish: "stop"})
		if v.Accept || c.Rejected() == stays || c.IsAnswer(v, true) != stays || c.IsAnswer(v, false) {
			t.Errorf("stays %v: %+v, rejected %v, kept %v", stays, v, c.Rejected(), c.IsAnswer(v, true))
		}
	}
	c, _ := asked(testConfig, State{HoldbackTokens: 100, CanResume: true, KeepCommitted: true}, -5, 40)
	if !c.Rejected() {
		t.Error("what was not committed stays, too")
	}
}

func TestADraftWithoutLogprobsIsServedOnlyIfTheTargetStandsByIt(t *testing.T) {
	end := Draft{Text: []byte("fine"), Finish: "stop"}
	for checked, want := range map[bool]string{false: ReasonNoLogprobs, true: ReasonDoubtful} {
		state := NewState(testConfig, State{Whole: true, Checked: checked})
		state.AddMissing(20)
		if v := state.FinalVerdict(end); v.Reason != want || v.Accept {
			t.Errorf("checked %t: %+v, want %s", checked, v, want)
		}
		if !checked {
			continue
		}
		if state.ApplyCheck(&Check{Pass: true, Kept: 20, Reason: ReasonTargetAgrees}); !state.FinalVerdict(end).Accept {
			t.Errorf("the target stands by it, and it is refused: %+v", state.FinalVerdict(end))
		}
	}
}

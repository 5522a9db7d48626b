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
	c.Judge = NewJudge(testConfig)
	return &c
}

func TestADraftCommitsWhenTheHoldBackIsOver(t *testing.T) {
	c := newState(State{Holdback: 20, Resumes: true})
	follow(c, repeat(-0.05, 19))
	if c.Committed() {
		t.Error("committed before the hold-back was over")
	}
	if c.Decide(true) != Commit || !c.Committed() || c.Decide(true) != Wait {
		t.Error("the hold-back's time did not commit it, once")
	}
	whole := newState(State{Holdback: 1, Whole: true})
	follow(whole, repeat(-0.05, 30))
	if whole.Committed() {
		t.Error("a draft that is judged whole was committed early")
	}
}

func TestADraftWithTooFewLogprobsIsRefusedInsteadOfCommitted(t *testing.T) {
	c := newState(State{Holdback: 8, Resumes: true})
	c.Missing(8)
	if c.Decide(false) != Wait || c.Committed() || !c.Rejected() {
		t.Errorf("committed %v, rejected %v", c.Committed(), c.Rejected())
	}
}

func TestOnlyTheScoreTakesACommittedDraftBack(t *testing.T) {
	c := newState(State{Holdback: 8})
	follow(c, repeat(-0.05, 10))
	for _, tc := range []struct {
		v     Verdict
		ended bool
		want  bool
	}{
		{Verdict{Accept: true, Reason: ReasonConfident}, true, true},
		{Verdict{Reason: ReasonRepetition}, true, true},
		{Verdict{Reason: ReasonScore}, true, false},
		{Verdict{Reason: ReasonCut}, false, false},
	} {
		if got := c.Keeps(tc.v, tc.ended); got != tc.want {
			t.Errorf("%+v, ended %v: kept %v", tc.v, tc.ended, got)
		}
	}
}

// asked is a state whose tokens all have the same logprob, decided at the end of its hold-back.
func asked(cfg Config, c State, logprob float64, tokens int) (*State, Decision) {
	out := NewState(cfg, c)
	for range tokens {
		out.Add(logprob, []float64{logprob})
	}
	return &out, out.Decide(false)
}

func TestTheTargetIsAskedWhereTheScoreLeavesADoubt(t *testing.T) {
	cfg := testConfig
	cfg.Threshold, cfg.Band = 0.2, 0.3
	const sure, doubtful, bad = -0.05, -0.4, -1.0 // scores of about 0.3, 0.1 and −0.4 nats
	for name, c := range map[string]struct {
		ask     Ask
		logprob float64
		want    Decision
		final   string // where it is judged whole
		crossed bool
	}{
		"never, sure":       {AskNever, sure, Commit, ReasonConfident, false},
		"never, doubtful":   {AskNever, doubtful, Wait, ReasonScore, true},
		"in doubt, sure":    {AskDoubt, sure, Commit, ReasonConfident, false},
		"in doubt":          {AskDoubt, doubtful, Doubt, ReasonDoubtful, false},
		"in doubt, bad":     {AskDoubt, bad, Wait, ReasonScore, true},
		"always, sure":      {AskAlways, sure, Doubt, ReasonDoubtful, false},
		"always, bad":       {AskAlways, bad, Wait, ReasonScore, true},
		"exact, sure":       {AskExact, sure, Doubt, ReasonDoubtful, false},
		"exact, bad":        {AskExact, bad, Doubt, ReasonDoubtful, false},
		"exact, impossible": {AskExact, -500, Doubt, ReasonDoubtful, false},
	} {
		got, decision := asked(cfg, State{Holdback: 16, Ask: c.ask, Resumes: true}, c.logprob, 16)
		if decision != c.want || got.Rejected() != c.crossed || got.Committed() != (c.want == Commit) {
			t.Errorf("%s: decision %d, rejected %v, score %v", name, decision, got.Rejected(), got.Score())
		}
		whole, decision := asked(cfg, State{Holdback: 1, Whole: true, Ask: c.ask}, c.logprob, 16)
		if v := whole.Final(Draft{Text: []byte("fine"), Finish: "stop"}); decision != Wait || v.Reason != c.final || v.Accept != (c.final == ReasonConfident) {
			t.Errorf("%s: whole: decision %d, %+v", name, decision, v)
		}
	}
}

func TestWhatTheTargetSaysOfAHeadDecides(t *testing.T) {
	cfg := testConfig
	cfg.Threshold, cfg.Band = 0.2, 0.3
	head := State{Holdback: 16, Ask: AskDoubt, Resumes: true}
	end := Draft{Text: []byte("fine"), Finish: "stop"}

	c, _ := asked(cfg, head, -0.4, 16)
	if c.Heard(&Check{Pass: true, Kept: 16, Reason: ReasonStandsBy}); !c.Committed() || c.Decide(true) != Wait {
		t.Error("a head that the target stands by is not committed, once")
	}
	if v := c.Final(end); !v.Accept || v.Lot != LotHead || v.Reason != ReasonStandsBy {
		t.Errorf("of it: %+v", v)
	}
	for range 40 {
		c.Add(-0.8, []float64{-0.8})
	}
	if v := c.Final(end); v.Accept || v.Reason != ReasonScore || c.Keeps(v, true) {
		t.Errorf("a head whose rest falls below the band: %+v", v)
	}

	c, _ = asked(cfg, head, -0.4, 16)
	c.Heard(&Check{Kept: 5, Failed: 1, Reason: ReasonDisagrees})
	if v := c.Final(end); v.Accept || v.Reason != ReasonDisagrees || v.Lot != "" || c.Committed() || c.Salvage(v, false) != (Salvage{Tokens: 5}) || c.Vouched() != 5 {
		t.Errorf("refused: %+v, of it %+v is kept", v, c.Salvage(v, false))
	}

	c, _ = asked(cfg, head, -0.4, 16)
	c.Heard(nil)
	if v := c.Final(end); v.Accept || v.Reason != ReasonNoVerdict || c.Vouched() != -1 || c.Salvage(v, false).Tokens != 0 { // the doubt is in its first tokens
		t.Errorf("unheard: %+v, of it %+v is kept", v, c.Salvage(v, false))
	}
}

func TestWholeDraftsAreInTheTargetsLotWhereItWasAsked(t *testing.T) {
	end := Draft{Text: []byte("fine"), Finish: "stop"}
	for _, ask := range []Ask{AskAlways, AskExact} {
		c, _ := asked(testConfig, State{Whole: true, Ask: ask, Resumes: true}, -0.05, 16)
		if at := c.Salvage(Verdict{Reason: ReasonCut}, false); at != (Salvage{}) {
			t.Errorf("ask %d: what the target has not seen is carried over: %+v", ask, at)
		}
		c.Heard(&Check{Pass: true, Kept: 16, Reason: ReasonStandsBy})
		if v := c.Final(end); !v.Accept || v.Lot != LotWhole || !c.Keeps(v, true) || c.Committed() {
			t.Errorf("ask %d: %+v", ask, v)
		}
	}
	c, _ := asked(testConfig, State{Whole: true}, -0.05, 16)
	if v := c.Final(end); v.Lot != LotConfidence {
		t.Errorf("not asked: %+v", v)
	}
}

func TestWhatWasCommittedStaysWhereThatIsWanted(t *testing.T) {
	for _, stays := range []bool{false, true} {
		c, d := asked(testConfig, State{Holdback: 16, Resumes: true, Stays: stays}, -0.05, 16)
		if d != Commit {
			t.Fatal("not committed")
		}
		for range 40 {
			c.Add(-5, []float64{-5})
		}
		v := c.Final(Draft{Text: []byte("fine"), Finish: "stop"})
		if v.Accept || c.Rejected() == stays || c.Keeps(v, true) != stays || c.Keeps(v, false) {
			t.Errorf("stays %v: %+v, rejected %v, kept %v", stays, v, c.Rejected(), c.Keeps(v, true))
		}
	}
	c, _ := asked(testConfig, State{Holdback: 100, Resumes: true, Stays: true}, -5, 40)
	if !c.Rejected() {
		t.Error("what was not committed stays, too")
	}
}

func TestDraftsWithoutLogprobsAreTreatedAsTheConfigSays(t *testing.T) {
	for _, c := range []struct {
		unscored string
		ask      Ask
		want     string
	}{
		{"", AskNever, ReasonNoLogprobs},
		{"", AskDoubt, ReasonNoLogprobs},
		{ReasonNoLogprobs, AskAlways, ReasonDoubtful}, // the target needs none to judge it
		{ReasonDoubtful, AskNever, ReasonNoLogprobs},  // nobody can be asked
		{ReasonDoubtful, AskDoubt, ReasonDoubtful},
		{ReasonDoubtful, AskAlways, ReasonDoubtful},
		{ReasonConfident, AskNever, ReasonConfident},
		{ReasonConfident, AskAlways, ReasonDoubtful}, // by its score nobody is accepted there
		{"", AskExact, ReasonDoubtful},               // the score refuses nothing
	} {
		state := NewState(testConfig, State{Whole: true, Ask: c.ask, Unscored: c.unscored})
		state.Missing(20)
		end := Draft{Text: []byte("fine"), Finish: "stop"}
		v := state.Final(end)
		if v.Reason != c.want || v.Accept != (c.want == ReasonConfident) {
			t.Errorf("%q, ask %d: %+v, want %s", c.unscored, c.ask, v, c.want)
		}
		if v.Reason != ReasonDoubtful {
			continue
		}
		if state.Heard(&Check{Pass: true, Kept: 20, Reason: ReasonStandsBy}); !state.Final(end).Accept {
			t.Errorf("%q, ask %d: the target stands by it, and it is refused: %+v", c.unscored, c.ask, state.Final(end))
		}
	}
}

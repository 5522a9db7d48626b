package accept

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// follow runs a course over tokens of one byte each; a mark comes after each.
// rests are the token counts at which a sentence ends.
func follow(c *Course, logprobs []float64, rests ...int) {
	for _, lp := range logprobs {
		if !c.Add(lp, []float64{lp}) {
			return
		}
		s := Step{Tokens: c.Tokens(), Text: c.Tokens(), IDs: c.Tokens(), Clean: true}
		for _, r := range rests {
			s.Rests = s.Rests || r == c.Tokens()
		}
		c.Mark(s)
		c.Decide(false)
	}
}

func newCourse(c Course) *Course {
	c.Judge = NewJudge(testConfig)
	return &c
}

func TestACourseCommitsWhenTheHoldBackIsOver(t *testing.T) {
	c := newCourse(Course{Holdback: 20, Resumes: true})
	follow(c, repeat(-0.05, 19))
	if c.Committed() {
		t.Error("committed before the hold-back was over")
	}
	if c.Decide(true) != Commit || !c.Committed() || c.Decide(true) != Wait {
		t.Error("the hold-back's time did not commit it, once")
	}
	whole := newCourse(Course{Holdback: 1, Whole: true})
	follow(whole, repeat(-0.05, 30))
	if whole.Committed() {
		t.Error("a draft that is judged whole was committed early")
	}
}

func TestACourseWithTooFewLogprobsIsRefusedInsteadOfCommitted(t *testing.T) {
	c := newCourse(Course{Holdback: 8, Resumes: true})
	c.Missing(8)
	if c.Decide(false) != Wait || c.Committed() || !c.Rejected() {
		t.Errorf("committed %v, rejected %v", c.Committed(), c.Rejected())
	}
}

func TestTheSeamIsBeforeTheDoubtAtASentencesEndIfOneIsNear(t *testing.T) {
	doubt := append(repeat(-0.05, 60), repeat(-3, 20)...)
	for name, tc := range map[string]struct {
		rests []int
		want  int
	}{
		"a sentence within 32 tokens": {[]int{10, 40}, 40},
		"only one too far back":       {[]int{10}, 50}, // before the worst window, which starts at 50
	} {
		c := newCourse(Course{Holdback: 200, Resumes: true})
		follow(c, doubt, tc.rests...)
		v := c.Early()
		if v.Accept || !c.Rejected() {
			t.Fatalf("%s: not rejected: %+v", name, v)
		}
		if got := c.Seam(v, false); got.Tokens != tc.want {
			t.Errorf("%s: the target takes over at %d, want %d", name, got.Tokens, tc.want)
		}
	}
}

func TestWhatWasReleasedIsBeforeTheSeam(t *testing.T) {
	c := newCourse(Course{Holdback: 32, Resumes: true})
	follow(c, append(repeat(-0.05, 60), repeat(-3, 20)...), 40)
	if !c.Committed() || !c.Rejected() {
		t.Fatal("want a commit, then a rejection")
	}
	if got, last := c.Seam(c.Early(), false), c.LastClean(c.Tokens()); got != last || got.Tokens < 60 {
		t.Errorf("the target takes over at %+v, want the last clean place %+v", got, last)
	}
}

func TestNothingIsCarriedOverThatNobodyVouchedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		course Course
		tokens int
		v      Verdict
		ended  bool
	}{
		"the target cannot resume": {Course{}, 40, Verdict{Reason: ReasonScore}, false},
		"too short":                {Course{Resumes: true}, 7, Verdict{Reason: ReasonCut}, false},
		"a loop":                   {Course{Resumes: true}, 40, Verdict{Reason: ReasonRepetition}, true},
		"cut by its own end":       {Course{Resumes: true}, 40, Verdict{Reason: ReasonCut}, true},
		"too long":                 {Course{Resumes: true}, 40, Verdict{Reason: ReasonLong}, false},
	} {
		tc.course.Whole = true
		c := newCourse(tc.course)
		follow(c, repeat(-0.05, tc.tokens))
		if got := c.Seam(tc.v, tc.ended); got != (Step{}) {
			t.Errorf("%s: takes over at %+v", name, got)
		}
	}
	lost := newCourse(Course{Resumes: true, Whole: true})
	follow(lost, repeat(-0.05, 40))
	if got := lost.Seam(Verdict{Reason: ReasonCut}, false); got.Tokens != 40 {
		t.Errorf("a draft that broke off is taken over at %d, want 40", got.Tokens)
	}
}

func TestOnlyTheScoreTakesACommittedDraftBack(t *testing.T) {
	c := newCourse(Course{Holdback: 8})
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

func TestPlacesBehindAStopStringAreForgotten(t *testing.T) {
	c := newCourse(Course{Resumes: true})
	for i := 1; i <= 5; i++ {
		c.Mark(Step{Tokens: i, Text: 10 * i, IDs: i, Clean: i != 3, Rests: Rests([]byte("end."))})
	}
	c.Shorten(35)
	want := Step{Tokens: 2, Text: 20, IDs: 2, Clean: true, Rests: true}
	if diff := cmp.Diff(want, c.LastClean(9)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for text, want := range map[int]int{0: 0, 20: 2, 25: 3, 30: 3, 99: 3} { // one that is shown in part counts
		if got := c.TokensIn(text); got != want {
			t.Errorf("%d bytes came from %d tokens, want %d", text, got, want)
		}
	}
}

package tiers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// question is what the rig's last attempt asked an engine to score.
func (r *checkRig) question() openai.ScoreQuestion {
	switch c := r.attempts[len(r.attempts)-1].Call.(type) {
	case *engine.Score:
		return c.Question
	}
	return openai.ScoreQuestion{}
}

func TestThatADraftEndsIsAChoiceToo(t *testing.T) {
	for what, c := range map[string]struct {
		ids   []int32
		ended bool
		asked []int32
	}{
		"it ended by itself":                  {[]int32{5, 6}, true, []int32{5, 6, 90}},
		"its engine told the id that ends it": {[]int32{5, 91}, true, []int32{5, 91}},
		"something else ended it":             {[]int32{5, 6}, false, []int32{5, 6}},
	} {
		r := newCheckRig(t, "0")
		var s []openai.Scored
		for _, id := range c.asked {
			s = append(s, chosen(id))
		}
		res := r.scores(s...).said(t, Draft{PromptIDs: []int32{1, 2}, IDs: c.ids, Tokens: 2, Ended: c.ended})
		same(t, what, r.question().Draft, c.asked...)
		if n := len(c.ids); !res.Pass || res.Kept != n || res.Tokens != n || res.Computed != 2+len(c.asked) {
			t.Errorf("%s: %+v", what, res)
		}
		if res.Warm == "" || res.Warm != res.Backend {
			t.Errorf("%s: warm is %q, asked was %q", what, res.Warm, res.Backend)
		}
	}
}

func TestIDsThatEndAnAnswerMeanTheSame(t *testing.T) {
	r := newCheckRig(t, "0")
	d := Draft{PromptIDs: []int32{1}, IDs: []int32{5, 90}, Tokens: 2, Ended: true}
	res := r.scores(chosen(5), openai.Scored{Logprob: -3, Top: -0.1, TopID: 91}).said(t, d)
	if !res.Pass {
		t.Errorf("%+v: 90 and 91 both end an answer", res)
	}
	res = r.scores(chosen(5), openai.Scored{Logprob: -3, Top: -0.1, TopID: 7}).said(t, d)
	if res.Pass || res.Kept != 1 || res.Reason != accept.ReasonTargetDisagrees {
		t.Errorf("%+v: the target would have gone on", res)
	}
}

func TestADraftOfWhichIDsAreMissingIsNotScored(t *testing.T) {
	r := newCheckRig(t, "0").scores()
	for _, d := range []Draft{{IDs: []int32{5}, Tokens: 1}, {PromptIDs: []int32{1}}, {PromptIDs: []int32{1}, IDs: []int32{5}, Tokens: 2}} {
		if res, err := r.ask(d); FailureReason(err) != "no_ids" || res.Receipt(err, 0).Reason != "no_ids" || res.Backend != "" {
			t.Errorf("%+v, %v", res, err)
		}
	}
	same(t, "asked", r.asked())
	r.asker.Scorer = plan.ScorerNone
	if _, err := r.ask(Draft{}); FailureReason(err) != "failed" {
		t.Errorf("without a scorer: %v", err)
	}
}

func TestTheLawIsAskedForWhereAnswersAreDrawn(t *testing.T) {
	for temperature, top := range map[string]int{"0": firstTop, "0.7": distributionTop} {
		r := newCheckRig(t, temperature)
		r.scores(chosen(5)).said(t, Draft{PromptIDs: []int32{1}, IDs: []int32{5}, Tokens: 1})
		if q := r.question(); q.Top != top || q.Model != "big" || q.Style != openai.ScoreCompletions {
			t.Errorf("at temperature %s: %+v", temperature, q)
		}
	}
}

func TestTheRuleFollowsTheSettingAndTheTemperature(t *testing.T) {
	off := []accept.TargetScore{{Logprob: -1.1, Top: -1}} // 0.1 nats from the first choice
	for rule, pass := range map[plan.VerifyRule]bool{plan.RuleExact: false, plan.RuleLenient: true} {
		if got := (Rule{Exact: rule == plan.RuleExact}).Check(off); got.Pass != pass {
			t.Errorf("rule %s: %+v", rule, got)
		}
	}
}

func TestAQuestionTakesNoPlaceThatTheLowestClassWouldNotGet(t *testing.T) {
	r := newCheckRig(t, "0")
	long := make([]int32, 3000)
	r.reply = scored(nil, openai.Scores{})
	if _, err := r.asker.Score(context.Background(), Question{Prompt: long, IDs: []int32{5}}); err != nil {
		t.Fatal(err)
	}
	ticket, a := r.tickets[0], r.attempts[0]
	if !ticket.NoWait || ticket.Class != 0 || ticket.Tokens != 3001 {
		t.Errorf("%+v", ticket)
	}
	if want := 3001 * time.Millisecond; a.FirstByteTimeout != want || a.MaxAnswer != 1 {
		t.Errorf("%s for the first byte, want %s; %d tokens", a.FirstByteTimeout, want, a.MaxAnswer)
	}
}

func TestThePlaceOfAnAuditDoesNotHangOnTheDraftsLength(t *testing.T) {
	r := newCheckRig(t, "0")
	r.asker.Admission = 210
	for _, n := range []int{1, 1000} {
		r.reply = scored(nil, openai.Scores{})
		if _, err := r.asker.Score(context.Background(), Question{Prompt: []int32{1}, IDs: make([]int32, n)}); err != nil {
			t.Fatal(err)
		}
		if got := r.tickets[len(r.tickets)-1].Tokens; got != 210 {
			t.Errorf("%d tokens: a place for %d", n, got)
		}
	}
	// What is computed counts all the same.
	_, err := r.asker.Score(context.Background(), Question{Prompt: []int32{1}, IDs: make([]int32, dispatch.MaxScoreTokens)})
	if FailureReason(err) != string(dispatch.ErrScoreTooLong) {
		t.Errorf("%v", err)
	}
}

// A draft whose ids are another text than the client would read is malformed, however likely the ids are.
func TestADraftIsTheTextThatTheTargetReadsInItsIds(t *testing.T) {
	for text, want := range map[string]bool{"It rains.": true, "It never rains.": false, "It rains": true, "It": false} {
		r := newCheckRig(t, "0")
		r.reply = scored([]openai.Scored{chosen(5), chosen(6), chosen(7)}, openai.Scores{Told: openai.TokenText{Text: []byte("It rains."), Last: 1}})
		res := r.said(t, Draft{PromptIDs: []int32{1}, IDs: []int32{5, 6, 7}, Tokens: 3, Text: []byte(text), Ended: true})
		if res.Pass != want || !want && (res.Reason != draft.ReasonMalformed || res.Kept != 0) {
			t.Errorf("%q: %+v", text, res)
		}
	}
}

func TestWhatComesBeforeAQuestionMayEndIt(t *testing.T) {
	r, no := newCheckRig(t, "0"), errors.New("no")
	r.asker.Before = func(context.Context) error { return no }
	res, err := r.ask(Draft{PromptIDs: []int32{1}, IDs: []int32{5}, Tokens: 1})
	if !errors.Is(err, no) || res.Backend != "" || res.Computed != 0 || len(r.attempts) != 0 {
		t.Errorf("%+v, %v, %d attempts", res, err, len(r.attempts))
	}
	for _, b := range r.target.Snapshot() {
		if b.InFlight != 0 {
			t.Errorf("%d places are held", b.InFlight)
		}
	}
}

func TestWhatAFailedQuestionCostIsToldAllTheSame(t *testing.T) {
	r := newCheckRig(t, "0")
	r.reply = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.ServerError, Status: 500} }
	res, err := r.ask(Draft{PromptIDs: []int32{1, 2}, IDs: []int32{5}, Tokens: 1})
	if err == nil || res.Backend == "" || res.Computed != 3 || res.Warm != "" {
		t.Errorf("%+v, %v", res, err)
	}
	want := Check{
		Reason: string(engine.ServerError), Backend: res.Backend, Scorer: plan.ScorerIDs, Tokens: 1, Took: time.Second,
	}
	if c := res.Receipt(err, time.Second); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	r.reply = scored([]openai.Scored{chosen(5)}, openai.Scores{Cached: 2})
	if res = r.said(t, Draft{PromptIDs: []int32{1, 2}, IDs: []int32{5}, Tokens: 1}); res.Computed != 1 {
		t.Errorf("%d tokens computed, of which 2 were in the cache", res.Computed)
	}
}

func TestWhyTheTargetCouldNotSayIsOneWord(t *testing.T) {
	for want, err := range map[string]error{
		"score_busy":       fmt.Errorf("judge: %w", dispatch.ErrScoreBusy),
		"upstream_timeout": &engine.Failure{Kind: engine.Timeout},
		"target_full":      pool.ErrFull,
		"no_ids":           errNoIDs,
		"no_backend":       pool.ErrNoBackend,
		"failed":           errors.New("else"),
	} {
		if got := FailureReason(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestInWordsTheOddsDecide(t *testing.T) {
	for odds, pass := range map[float64]bool{-0.1: false, 0: true, 3: true} {
		r := newCheckRig(t, "0")
		r.asker.Scorer = plan.ScorerJudge
		r.reply = func(a *engine.Attempt) error {
			a.Call.(*engine.Judge).Into.Odds = odds
			return nil
		}
		r.asker.Target.Capabilities.Thinks = pass
		d := Draft{Text: []byte("an answer"), Tokens: 4}
		res := r.said(t, d)
		if res.Pass != pass || res.Score != accept.Nats(odds) || res.Warm != "" || res.Computed != r.asker.Body.PromptTokens+4 {
			t.Errorf("odds of %g: %+v", odds, res)
		}
		if c := r.attempts[0].Call.(*engine.Judge); string(c.Question.Answer) != "an answer" || c.Question.Model != "big" || c.Thinks != pass {
			t.Errorf("%+v", c)
		}
	}
	r := newCheckRig(t, "0")
	r.asker.Scorer = plan.ScorerJudge
	r.reply = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.Timeout} }
	if res, err := r.ask(Draft{Tokens: 4}); FailureReason(err) != "upstream_timeout" || res.Computed != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

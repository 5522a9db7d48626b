package tiers

import (
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// tells has engines turn the prompt into ids 1, 2 and any text into 10, 11, 12, of which the target refuses those from one on,
// and say that ids are so much text.
func (r *checkRig) tells(from int, text string) *checkRig {
	r.asker.Scorer = plan.ScorerText
	r.reply = func(a *engine.Attempt) error {
		switch c := a.Call.(type) {
		case *engine.TokenizePrompt:
			*c.Into = []int32{1, 2}
		case *engine.TokenizeText:
			*c.Into = []int32{10, 11, 12}
		case *engine.Detokenize:
			*c.Into = []byte(text)
		case *engine.Score:
			c.Into.Tokens = make([]openai.Scored, len(c.Question.Draft))
			for i, id := range c.Question.Draft {
				if c.Into.Tokens[i] = chosen(id); i >= from {
					c.Into.Tokens[i] = unlikely(99)
				}
			}
		}
		return nil
	}
	return r
}

func TestATextIsScoredInTheTargetsOwnTokens(t *testing.T) {
	r := newCheckRig(t, "0").tells(9, "")
	res := r.said(t, Draft{Text: []byte("one two"), WithStop: []byte("one two end"), Tokens: 7})
	if !res.Pass || res.Tokens != 3 || res.Part != nil || res.Computed != 5 {
		t.Errorf("%+v", res)
	}
	same(t, "asked", r.asked(), "prompt", "text", "score")
	if c := r.attempts[1].Call.(*engine.TokenizeText); string(c.Text) != "one two end" {
		t.Errorf("the target is asked about %q", c.Text)
	}
	for _, ticket := range r.tickets[:2] {
		if !ticket.MidStream {
			t.Errorf("a front end is waited for: %+v", ticket)
		}
	}
	r = newCheckRig(t, "0").tells(9, "")
	if res = r.said(t, Draft{Text: []byte("one two"), Ended: true, Tokens: 7}); !res.Pass || res.Tokens != 4 {
		t.Errorf("with its end: %+v", res)
	}
	same(t, "scored with its end", r.question().Draft, 10, 11, 12, 90)
}

func TestOfARefusedTextTheTargetCarriesOnInItsOwnTokens(t *testing.T) {
	for what, c := range map[string]struct {
		from    int
		text    string // of the part that stands
		resumes bool
		part    int // its ids
		asked   int // calls
	}{
		"two stand, the last of which may be cut": {2, "one", true, 1, 4},
		"one stands":                    {1, "one", true, 0, 3},
		"its text is not the draft's":   {2, "two", true, 0, 4},
		"nobody carries on from a part": {2, "one", false, 0, 3},
	} {
		r := newCheckRig(t, "0").tells(c.from, c.text)
		res := r.said(t, Draft{Text: []byte("one two three"), Tokens: 7, Resumes: c.resumes})
		n := 0
		if res.Part != nil {
			n = len(res.Part.IDs)
			same(t, what+": the prompt", res.Part.PromptIDs, 1, 2)
		}
		if res.Pass || res.Kept != 0 || n != c.part || n > 0 && res.Part.Text != 3 || len(r.attempts) != c.asked || res.Warm == "" {
			t.Errorf("%s: %+v, %v", what, res, r.asked())
		}
	}
}

func TestWhereNobodyTellsTheIDsOfATextThereIsNoWord(t *testing.T) {
	r := newCheckRig(t, "0")
	r.asker.Scorer = plan.ScorerText
	r.reply = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.ServerError} }
	res, err := r.ask(Draft{Text: []byte("x"), IDs: []int32{1, 2}})
	if FailureReason(err) != "upstream_error" || res.Tokens != 2 || res.Computed != 0 || res.Backend != "" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTheClientsLimitCountsTheTargetsTokens(t *testing.T) {
	exact, lenient := Rule{Exact: true}, Rule{}
	for what, c := range map[string]struct {
		rule Rule
		said accept.Check
		span span
		pass bool
		kept int
	}{
		"all stand":                              {exact, accept.Check{Pass: true, Kept: 5}, span{limit: 6, scored: 5, own: 5}, true, 4},
		"more than the limit":                    {exact, accept.Check{Pass: true, Kept: 8}, span{limit: 6, scored: 8, own: 8}, false, 6},
		"the same by another rule":               {lenient, accept.Check{Pass: true, Kept: 8}, span{limit: 6, scored: 8, own: 8}, true, 6},
		"cut by it, and fewer":                   {exact, accept.Check{Pass: true, Kept: 5}, span{limit: 6, scored: 5, own: 5, atLimit: true}, false, 4},
		"cut by it, and as many":                 {exact, accept.Check{Pass: true, Kept: 6}, span{limit: 6, scored: 6, own: 6, atLimit: true}, true, 5},
		"no limit":                               {exact, accept.Check{Pass: true, Kept: 9}, span{scored: 9, own: 8}, true, 8},
		"the end is no token to carry on behind": {exact, accept.Check{Kept: 4}, span{limit: 9, scored: 4, own: 3}, false, 3},
		"none stands":                            {exact, accept.Check{}, span{limit: 9, scored: 4, own: 4}, false, 0},
	} {
		kept, taken := c.rule.limitTo(&c.said, c.span), !c.pass && c.said.Kept > 4 // its pass was taken from it
		if kept != c.kept || c.said.Pass != c.pass || taken && c.said.Reason != accept.ReasonTargetDisagrees {
			t.Errorf("%s: %d kept, %+v", what, kept, c.said)
		}
	}
}

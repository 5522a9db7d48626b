package tiers

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// fullQueue has no place at one pool.
type fullQueue struct{ pool string }

func (q fullQueue) Enter(_ context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	if t.Pool == q.pool {
		return 0, pool.ErrFull
	}
	return 0, try(pool.Admission{})
}

// fate is what becomes of a draft; the zero value is one of twelve letters that is accepted.
type fate struct {
	word    string // of X-Acceptance; "" is rejected
	more    string // members of the request
	text    string // of the draft; "" is twelve letters
	finish  string // "" is stop, "none" is no end
	breaks  bool   // its backend fails behind the text
	checked bool   // the target checks it
	score   func(c *engine.Score) engine.Stream
	set     func(r *playedRig)
	chunk   func(c *openai.Chunk)
	refused bool // no backend makes it
}

// fates has a row for each reason of X-Acceptance that shows only when a draft is made. Those that are decided before have
// theirs in tiers/plan, and those of its format in tiers/schema.
var fates = map[string]fate{
	accept.ReasonConfident:       {word: "accepted"},
	accept.ReasonScore:           {set: func(r *playedRig) { r.request.Config.Accept.Threshold = 100 }},
	accept.ReasonNoLogprobs:      {chunk: func(c *openai.Chunk) { c.Logprobs = nil }},
	accept.ReasonEmpty:           {text: "   "},
	accept.ReasonRepetition:      {text: strings.Repeat("ab", 60)},
	accept.ReasonLost:            {finish: "none", breaks: true},
	accept.ReasonCut:             {finish: "length"},
	accept.ReasonInvalid:         {more: `,"response_format":{"type":"json_object"}`},
	accept.ReasonLong:            {set: func(r *playedRig) { r.request.MaxBody = 5 }},
	accept.ReasonTargetAgrees:    {word: "accepted", checked: true, score: func(c *engine.Score) engine.Stream { return scores(c) }},
	accept.ReasonTargetDisagrees: {checked: true, score: refuses},
	accept.ReasonNoVerdict:       {checked: true},
	reasonUnavailable:            {word: "bypassed", refused: true},
	reasonFull:                   {word: "bypassed", set: func(r *playedRig) { r.request.Dispatch.Queue = fullQueue{r.request.Draft.Name()} }},
}

// refuses has the target choose other tokens from the first on.
func refuses(c *engine.Score) engine.Stream {
	s := scores(c)
	for i := range c.Into.Tokens {
		c.Into.Tokens[i] = openai.Scored{Logprob: -9, Top: -0.01, TopID: 7}
	}
	return s
}

func TestEachReasonOfADraftHasAFateThatEndsInIt(t *testing.T) {
	for reason, f := range fates {
		t.Run(reason, func(t *testing.T) {
			p := plan.Plan{Tier: plan.Draft, Judged: true, Whole: true}
			if f.checked {
				p.Mode, p.Checked, p.Rule, p.Scorer = plan.ModeVerify, true, plan.RuleExact, plan.ScorerIDs
			}
			r := newPlayedRig(t, p, f.more)
			r.request.Body.Stream, r.request.Config.Accept.Threshold = false, -100
			if f.set != nil {
				f.set(r)
			}
			r.answer = func(call engine.Call) (engine.Stream, error) {
				switch c := call.(type) {
				case *engine.Draft:
					return f.draft()
				case *engine.Relay:
					return afresh(t, c), nil
				case *engine.Score:
					if f.score != nil {
						return f.score(c), nil
					}
				}
				return nil, nil
			}
			err := r.run(t.Context())
			word := f.word
			if word == "" {
				word = "rejected"
			}
			if got := r.rc.Acceptance(); err != nil || !strings.HasPrefix(got+";", word+";reason="+reason+";") {
				t.Errorf("%s (%v), want %s;reason=%s", got, err, word, reason)
			}
		})
	}
}

// draft is the draft that the draft pool makes.
func (f *fate) draft() (engine.Stream, error) {
	if f.refused {
		return nil, nil
	}
	text, finish := f.text, f.finish
	if text == "" {
		text = "abcdefghijkl"
	}
	switch finish {
	case "":
		finish = "stop"
	case "none":
		finish = ""
	}
	var err error
	if f.breaks {
		err = &engine.Failure{Kind: engine.Cut}
	}
	s := letters(text, finish, err)
	for i := range s.chunks {
		if f.chunk != nil {
			f.chunk(&s.chunks[i])
		}
	}
	return s, nil
}

// TestEveryReasonOfAVerdictHasAFate reads the reasons where they are declared. A doubtful draft is asked about, so that none
// ends so, but where nobody can be asked any more: then it is served, and "late".
func TestEveryReasonOfAVerdictHasAFate(t *testing.T) {
	source, err := os.ReadFile("accept/verdict.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Reason\w+ += "(\w+)"`).FindAllSubmatch(source, -1)
	if len(found) < 10 {
		t.Fatalf("%d reasons were found", len(found))
	}
	for _, m := range found {
		if reason := string(m[1]); reason != accept.ReasonDoubtful {
			if _, ok := fates[reason]; !ok {
				t.Errorf("no draft ends in %s", reason)
			}
		}
	}
}
